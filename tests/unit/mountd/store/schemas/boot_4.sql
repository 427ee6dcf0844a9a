-- SPDX-License-Identifier: LGPL-2.1-or-later
BEGIN TRANSACTION;
CREATE TABLE anchors(
  source_kind INTEGER NOT NULL, source TEXT NOT NULL,
  anchor_id INTEGER NOT NULL, PRIMARY KEY(source_kind, source)) WITHOUT ROWID;
INSERT INTO "anchors" VALUES(1,'vol',42);
CREATE TABLE mounts(
  allocation TEXT NOT NULL, task TEXT NOT NULL, name TEXT NOT NULL,
  source_kind INTEGER NOT NULL, source TEXT NOT NULL,
  propagation INTEGER NOT NULL, attributes INTEGER NOT NULL,
  task_path TEXT NOT NULL, state INTEGER NOT NULL,
  mount_id INTEGER NOT NULL, peer_group INTEGER NOT NULL,
  master INTEGER NOT NULL, tmpfs TEXT NOT NULL DEFAULT '', tmpfs_bytes INTEGER NOT NULL DEFAULT 0, id_map TEXT NOT NULL DEFAULT '[]', PRIMARY KEY(allocation, task, name))
  WITHOUT ROWID;
INSERT INTO "mounts" VALUES('web','app','data',1,'vol',2,1,'/data',2,4711,5,6,'',0,'[[0,100000,65536]]');
INSERT INTO "mounts" VALUES('web','app','tmp',3,'',1,2,'/tmp',1,0,0,0,'[4096,4,1023,1000,100,0]',4096,'[]');
CREATE TABLE networks(
  allocation TEXT PRIMARY KEY, network TEXT NOT NULL, ipv4 TEXT NOT NULL,
  ipv6 TEXT NOT NULL, ports TEXT NOT NULL, state INTEGER NOT NULL,
  netns_inode INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO "networks" VALUES('web','default','10.88.0.2','fd00::2','[["http",8080,80,1]]',2,4026532000);
CREATE TABLE ports(
  host_port INTEGER NOT NULL, protocol INTEGER NOT NULL,
  allocation TEXT NOT NULL, PRIMARY KEY(host_port, protocol)) WITHOUT ROWID;
INSERT INTO "ports" VALUES(8080,6,'web');
CREATE TABLE quarantine(
  ipv4 TEXT PRIMARY KEY, network TEXT NOT NULL, allocation TEXT NOT NULL,
  netns_inode INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO "quarantine" VALUES('10.88.0.3','default','old',4026532001);
CREATE INDEX mounts_by_source ON mounts(source_kind, source);
CREATE INDEX ports_by_allocation ON ports(allocation);
COMMIT;
PRAGMA user_version=4;
