-- SPDX-License-Identifier: LGPL-2.1-or-later
BEGIN TRANSACTION;
CREATE TABLE allocations(
  id TEXT PRIMARY KEY, uid INTEGER NOT NULL, gid INTEGER NOT NULL,
  scope TEXT NOT NULL, state INTEGER NOT NULL, cgroup INTEGER NOT NULL DEFAULT 0, lease_required INTEGER NOT NULL DEFAULT 0, group_id INTEGER NOT NULL DEFAULT 0);
INSERT INTO "allocations" VALUES('web',1000,100,'prod',1,77,1,100000);
INSERT INTO "allocations" VALUES('db',1001,101,'',2,78,0,0);
CREATE TABLE departed(
  key TEXT NOT NULL REFERENCES volumes(key), allocation TEXT NOT NULL,
  target_left INTEGER NOT NULL, file_system TEXT NOT NULL DEFAULT '', cgroup INTEGER NOT NULL DEFAULT 0, PRIMARY KEY(key, allocation));
INSERT INTO "departed" VALUES('018fe69d36337415d61328592f4fa7ce','gone',1,'',79);
CREATE TABLE detached(
  allocation TEXT NOT NULL REFERENCES allocations(id), plugin TEXT NOT NULL,
  volume_id TEXT NOT NULL, unstaged INTEGER NOT NULL, owed INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY(allocation, plugin, volume_id));
INSERT INTO "detached" VALUES('web','csi','vol/0',1,0);
CREATE TABLE fences(
  allocation TEXT PRIMARY KEY, uid INTEGER NOT NULL, lease TEXT NOT NULL,
  boot_id TEXT NOT NULL, on_lapse INTEGER NOT NULL,
  stop_tasks INTEGER NOT NULL, cgroup INTEGER NOT NULL,
  state INTEGER NOT NULL, lifted INTEGER NOT NULL, lapse_reason TEXT NOT NULL,
  lapsed_boot_us INTEGER NOT NULL, lapsed_wall_us INTEGER NOT NULL,
  stopped_boot_us INTEGER NOT NULL, stopped_wall_us INTEGER NOT NULL,
  searched_boot_us INTEGER NOT NULL, searched_wall_us INTEGER NOT NULL,
  done_boot_us INTEGER NOT NULL, done_wall_us INTEGER NOT NULL,
  had_tasks INTEGER NOT NULL, copies TEXT NOT NULL,
  handed_out INTEGER NOT NULL, volumes_detached INTEGER NOT NULL,
  error TEXT NOT NULL, attempts INTEGER NOT NULL, told INTEGER NOT NULL DEFAULT 0, traceparent TEXT NOT NULL DEFAULT '', request_id TEXT NOT NULL DEFAULT '');
INSERT INTO "fences" VALUES('kept',1000,'old lease','boot 1',2,1,79,2,0,'no renewal came before its deadline',1000,1700000000000000,2000,1700000000001000,3000,1700000000002000,4000,1700000000003000,1,'',0,1,'',2,1,'','');
INSERT INTO "fences" VALUES('going',1000,'old lease','boot 1',1,0,0,1,0,'no renewal came before its deadline',1000,1700000000000000,0,0,0,0,0,0,0,'',0,0,'was busy',3,0,'00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01','r-2');
CREATE TABLE leases(
  uid INTEGER NOT NULL, name TEXT NOT NULL, allocation TEXT NOT NULL,
  scope TEXT NOT NULL, kind INTEGER NOT NULL, timeout_ms INTEGER NOT NULL,
  on_lapse INTEGER NOT NULL, stop_tasks INTEGER NOT NULL,
  state INTEGER NOT NULL, boot_id TEXT NOT NULL,
  deadline_boot_us INTEGER NOT NULL, reason TEXT NOT NULL, traceparent TEXT NOT NULL DEFAULT '', request_id TEXT NOT NULL DEFAULT '',
  PRIMARY KEY(uid, name));
INSERT INTO "leases" VALUES(1000,'agent','web','',2,10000,1,2,1,'boot 1',5000000,'','00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01','r-2');
CREATE TABLE meta(name TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO "meta" VALUES('boot_id','boot 1');
CREATE TABLE owed(
  id INTEGER PRIMARY KEY AUTOINCREMENT, kind INTEGER NOT NULL,
  object TEXT NOT NULL, uid INTEGER NOT NULL, reason TEXT NOT NULL,
  attempts INTEGER NOT NULL, since_us INTEGER NOT NULL,
  UNIQUE(kind, object));
INSERT INTO "owed" VALUES(3,1,'db',1001,'was busy',4,1700000000000001);
CREATE TABLE plugin_instances(
  serial INTEGER PRIMARY KEY AUTOINCREMENT,
  plugin TEXT NOT NULL REFERENCES plugins(id), type TEXT NOT NULL,
  allocation TEXT NOT NULL, mount_dir TEXT NOT NULL,
  stage_publish_base_dir TEXT NOT NULL DEFAULT '',
  health_timeout_ms INTEGER NOT NULL DEFAULT 0,
  fingerprint TEXT NOT NULL DEFAULT '', former_node_ids TEXT NOT NULL DEFAULT '',
  UNIQUE(plugin, type, allocation));
INSERT INTO "plugin_instances" VALUES(1,'csi','node','plug','/csi','/stage',1500,'','["n0"]');
CREATE TABLE plugins(
  id TEXT PRIMARY KEY, uid INTEGER NOT NULL,
  removing INTEGER NOT NULL DEFAULT 0, bare_directories INTEGER NOT NULL DEFAULT 0, declared INTEGER NOT NULL DEFAULT 0);
INSERT INTO "plugins" VALUES('csi',1000,1,1,1);
CREATE TABLE publications(
  key TEXT NOT NULL REFERENCES volumes(key), allocation TEXT NOT NULL
    REFERENCES allocations(id), alias TEXT NOT NULL,
  read_only INTEGER NOT NULL, state INTEGER NOT NULL,
  mount_id INTEGER NOT NULL, device INTEGER NOT NULL DEFAULT 0, was_published INTEGER NOT NULL DEFAULT 1, file_system TEXT NOT NULL DEFAULT '',
  PRIMARY KEY(allocation, alias), UNIQUE(key, allocation));
INSERT INTO "publications" VALUES('018fe69d36337415d61328592f4fa7ce','web','data',1,2,4711,2049,1,'');
CREATE TABLE receipts(
  serial INTEGER PRIMARY KEY AUTOINCREMENT, allocation TEXT UNIQUE NOT NULL,
  uid INTEGER NOT NULL, released_at_us INTEGER NOT NULL,
  volumes TEXT NOT NULL, traceparent TEXT NOT NULL DEFAULT '', request_id TEXT NOT NULL DEFAULT '');
INSERT INTO "receipts" VALUES(7,'old',1000,1700000000000000,'[["csi","vol/9",1]]','00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01','r-1');
CREATE TABLE scopes(
  uid INTEGER NOT NULL, scope TEXT NOT NULL, epoch INTEGER NOT NULL,
  PRIMARY KEY(uid, scope));
INSERT INTO "scopes" VALUES(1000,'prod',9);
CREATE TABLE unchecked(
  serial INTEGER PRIMARY KEY AUTOINCREMENT, allocation TEXT NOT NULL,
  uid INTEGER NOT NULL, cgroup INTEGER NOT NULL,
  UNIQUE(allocation, uid, cgroup));
CREATE TABLE volumes(
  key TEXT PRIMARY KEY, plugin TEXT NOT NULL REFERENCES plugins(id),
  volume_id TEXT NOT NULL, uid INTEGER NOT NULL,
  state INTEGER NOT NULL, access_mode INTEGER NOT NULL,
  fs_type TEXT NOT NULL, capability_digest TEXT NOT NULL,
  publish_context TEXT NOT NULL, volume_context TEXT NOT NULL, block INTEGER NOT NULL DEFAULT 0, volume_mount_group TEXT NOT NULL DEFAULT '', needs INTEGER NOT NULL DEFAULT 0,
  UNIQUE(plugin, volume_id));
INSERT INTO "volumes" VALUES('018fe69d36337415d61328592f4fa7ce','csi','vol/1',1000,2,5,'ext4','d1','{"a":"1"}','{"b":"2"}',1,'77',3);
CREATE INDEX allocations_by_scope ON allocations(uid, scope);
CREATE INDEX receipts_by_uid ON receipts(uid, serial);
CREATE INDEX fences_by_uid ON fences(uid, state);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('plugin_instances',1);
INSERT INTO "sqlite_sequence" VALUES('receipts',7);
INSERT INTO "sqlite_sequence" VALUES('owed',3);
COMMIT;
PRAGMA user_version=14;
