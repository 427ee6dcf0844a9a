-- SPDX-License-Identifier: LGPL-2.1-or-later
BEGIN TRANSACTION;
CREATE TABLE allocations(
  id TEXT PRIMARY KEY, uid INTEGER NOT NULL, gid INTEGER NOT NULL,
  scope TEXT NOT NULL, state INTEGER NOT NULL, cgroup INTEGER NOT NULL DEFAULT 0);
INSERT INTO "allocations" VALUES('web',1000,100,'prod',1,77);
INSERT INTO "allocations" VALUES('db',1001,101,'',2,78);
CREATE TABLE detached(
  allocation TEXT NOT NULL REFERENCES allocations(id), plugin TEXT NOT NULL,
  volume_id TEXT NOT NULL, unstaged INTEGER NOT NULL,
  PRIMARY KEY(allocation, plugin, volume_id));
INSERT INTO "detached" VALUES('web','csi','vol/0',1);
CREATE TABLE meta(name TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO "meta" VALUES('boot_id','boot 1');
CREATE TABLE owed(
  id INTEGER PRIMARY KEY AUTOINCREMENT, kind INTEGER NOT NULL,
  object TEXT NOT NULL, uid INTEGER NOT NULL, reason TEXT NOT NULL,
  attempts INTEGER NOT NULL, since_us INTEGER NOT NULL,
  UNIQUE(kind, object));
INSERT INTO "owed" VALUES(3,1,'db',1001,'was busy',4,1700000000000001);
CREATE TABLE plugins(
  id TEXT PRIMARY KEY, type TEXT NOT NULL, uid INTEGER NOT NULL,
  allocation TEXT NOT NULL, mount_dir TEXT NOT NULL,
  removing INTEGER NOT NULL DEFAULT 0);
INSERT INTO "plugins" VALUES('csi','node',1000,'plug','/csi',1);
CREATE TABLE publications(
  key TEXT NOT NULL REFERENCES volumes(key), allocation TEXT NOT NULL
    REFERENCES allocations(id), alias TEXT NOT NULL,
  read_only INTEGER NOT NULL, state INTEGER NOT NULL,
  mount_id INTEGER NOT NULL,
  PRIMARY KEY(allocation, alias), UNIQUE(key, allocation));
INSERT INTO "publications" VALUES('018fe69d36337415d61328592f4fa7ce','web','data',1,2,4711);
CREATE TABLE receipts(
  serial INTEGER PRIMARY KEY AUTOINCREMENT, allocation TEXT UNIQUE NOT NULL,
  uid INTEGER NOT NULL, released_at_us INTEGER NOT NULL,
  volumes TEXT NOT NULL);
INSERT INTO "receipts" VALUES(7,'old',1000,1700000000000000,'[["csi","vol/9",1]]');
CREATE TABLE volumes(
  key TEXT PRIMARY KEY, plugin TEXT NOT NULL REFERENCES plugins(id),
  volume_id TEXT NOT NULL, uid INTEGER NOT NULL,
  state INTEGER NOT NULL, access_mode INTEGER NOT NULL,
  fs_type TEXT NOT NULL, capability_digest TEXT NOT NULL,
  publish_context TEXT NOT NULL, volume_context TEXT NOT NULL,
  UNIQUE(plugin, volume_id));
INSERT INTO "volumes" VALUES('018fe69d36337415d61328592f4fa7ce','csi','vol/1',1000,2,5,'ext4','d1','{"a":"1"}','{"b":"2"}');
CREATE INDEX receipts_by_uid ON receipts(uid, serial);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('receipts',7);
INSERT INTO "sqlite_sequence" VALUES('owed',3);
COMMIT;
PRAGMA user_version=2;
