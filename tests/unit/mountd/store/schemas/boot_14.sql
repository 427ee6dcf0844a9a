-- SPDX-License-Identifier: LGPL-2.1-or-later
BEGIN TRANSACTION;
CREATE TABLE anchors(
  source_kind INTEGER NOT NULL, source TEXT NOT NULL,
  anchor_id INTEGER NOT NULL, PRIMARY KEY(source_kind, source)) WITHOUT ROWID;
INSERT INTO "anchors" VALUES(1,'vol',42);
CREATE TABLE handed_out(
  mount_id INTEGER PRIMARY KEY, reusable_id INTEGER NOT NULL,
  device INTEGER NOT NULL, allocation TEXT NOT NULL, uid INTEGER NOT NULL,
  kind INTEGER NOT NULL, source_kind INTEGER NOT NULL, name TEXT NOT NULL);
INSERT INTO "handed_out" VALUES(4712,43,2049,'web',1000,2,1,'app');
CREATE TABLE inboxes(
  allocation TEXT NOT NULL, task TEXT NOT NULL,
  PRIMARY KEY(allocation, task)) WITHOUT ROWID;
INSERT INTO "inboxes" VALUES('web','app');
CREATE TABLE lease_deadlines(
  uid INTEGER NOT NULL, name TEXT NOT NULL, deadline_boot_us INTEGER NOT NULL,
  PRIMARY KEY(uid, name)) WITHOUT ROWID;
INSERT INTO "lease_deadlines" VALUES(1000,'beat',5000000);
CREATE TABLE meta(name TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO "meta" VALUES('boot_id','boot 1');
CREATE TABLE mounts(
  allocation TEXT NOT NULL, task TEXT NOT NULL, name TEXT NOT NULL,
  source_kind INTEGER NOT NULL, source TEXT NOT NULL,
  propagation INTEGER NOT NULL, attributes INTEGER NOT NULL,
  task_path TEXT NOT NULL, state INTEGER NOT NULL,
  mount_id INTEGER NOT NULL, peer_group INTEGER NOT NULL,
  master INTEGER NOT NULL, tmpfs TEXT NOT NULL DEFAULT '', tmpfs_bytes INTEGER NOT NULL DEFAULT 0, id_map TEXT NOT NULL DEFAULT '[]', source_group INTEGER NOT NULL DEFAULT 0, uid INTEGER NOT NULL DEFAULT 0, target_kind INTEGER NOT NULL DEFAULT 1, directory TEXT NOT NULL DEFAULT '', PRIMARY KEY(allocation, task, name))
  WITHOUT ROWID;
INSERT INTO "mounts" VALUES('web','app','data',1,'vol',2,1,'/data',2,4711,5,6,'',0,'[[0,100000,65536]]',9,1000,1,'place');
INSERT INTO "mounts" VALUES('web','app','tmp',3,'',1,2,'/tmp',1,0,0,0,'[4096,4,1023,1000,100,0]',4096,'[]',0,1000,1,'');
CREATE TABLE networks(
  allocation TEXT NOT NULL, interface TEXT NOT NULL, mode INTEGER NOT NULL,
  network TEXT NOT NULL, ipv4 TEXT NOT NULL, ipv6 TEXT NOT NULL,
  flags INTEGER NOT NULL, ports TEXT NOT NULL, state INTEGER NOT NULL,
  netns_inode INTEGER NOT NULL, netns_given INTEGER NOT NULL,
  files TEXT NOT NULL, cni TEXT NOT NULL DEFAULT '', cni_result TEXT NOT NULL DEFAULT '', taken_over INTEGER NOT NULL DEFAULT 0, PRIMARY KEY(allocation, interface)) WITHOUT ROWID;
INSERT INTO "networks" VALUES('web','eth0',3,'default','10.88.0.2','fd00::2',3,'[["http",8080,80,1,2,"192.0.2.1"]]',2,4026532000,1,'["host",[["10.0.0.9",["peer"]]],["10.0.0.1"],[],[]]','','',0);
CREATE TABLE quarantine(
  ipv4 TEXT NOT NULL, ipv6 TEXT NOT NULL, network TEXT NOT NULL,
  allocation TEXT NOT NULL, netns_inode INTEGER NOT NULL,
  PRIMARY KEY(ipv4, ipv6)) WITHOUT ROWID;
INSERT INTO "quarantine" VALUES('10.88.0.3','fd00::3','default','old',4026532001);
CREATE INDEX mounts_by_source ON mounts(source_kind, source);
CREATE INDEX mounts_by_id ON mounts(mount_id) WHERE mount_id<>0;
COMMIT;
PRAGMA user_version=14;
