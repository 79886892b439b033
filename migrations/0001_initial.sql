-- SPDX-License-Identifier: MIT
-- All tables of the contract. Natural primary keys; times are UTC; text keys
-- compare byte by byte. Each statement may run again, since a crash can come
-- between any two of them: DDL has no transactions. Statements end with a semicolon at the end of a line.

CREATE TABLE IF NOT EXISTS family (
  family_id BIGINT NOT NULL,
  name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  PRIMARY KEY (family_id),
  CONSTRAINT family_id_ck CHECK (family_id >= 0)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE IF NOT EXISTS family_member (
  family_id BIGINT NOT NULL,
  customer_id BIGINT NOT NULL,
  PRIMARY KEY (family_id, customer_id),
  KEY family_member_customer (customer_id),
  CONSTRAINT family_member_ck CHECK (family_id >= 0 AND customer_id >= 0)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- customer_id NULL: the rule is for every member. rules is JSON in content, text in type.
CREATE TABLE IF NOT EXISTS policy_assignment (
  policy_assignment_id BIGINT NOT NULL AUTO_INCREMENT,
  family_id BIGINT NOT NULL,
  customer_id BIGINT NULL,
  policy_type VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  rules TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  is_active TINYINT(1) NOT NULL DEFAULT 1,
  updated_at DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),
  PRIMARY KEY (policy_assignment_id),
  KEY policy_assignment_family (family_id, is_active),
  CONSTRAINT policy_assignment_ck CHECK (family_id >= 0 AND (customer_id IS NULL OR customer_id >= 0))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- total_quota_bytes is written by others; everything else here is tallyd's.
CREATE TABLE IF NOT EXISTS family_quota (
  family_id BIGINT NOT NULL,
  quota_month DATE NOT NULL,
  total_quota_bytes BIGINT NOT NULL,
  used_bytes BIGINT NOT NULL DEFAULT 0,
  delta_bytes BIGINT NOT NULL DEFAULT 0,
  rev BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (family_id, quota_month),
  CONSTRAINT family_quota_ck CHECK (family_id >= 0 AND total_quota_bytes >= 0 AND used_bytes >= 0)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE IF NOT EXISTS customer_quota (
  family_id BIGINT NOT NULL,
  customer_id BIGINT NOT NULL,
  quota_month DATE NOT NULL,
  monthly_used_bytes BIGINT NOT NULL DEFAULT 0,
  delta_bytes BIGINT NOT NULL DEFAULT 0,
  rev BIGINT NOT NULL DEFAULT 0,
  is_blocked TINYINT(1) NOT NULL DEFAULT 0,
  block_reason VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NULL,
  state_event_time DATETIME(3) NULL,
  PRIMARY KEY (family_id, customer_id, quota_month),
  CONSTRAINT customer_quota_ck CHECK (family_id >= 0 AND customer_id >= 0 AND monthly_used_bytes >= 0)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- One row an allowed event; event_id is the guard: only a new row moves the quotas.
CREATE TABLE IF NOT EXISTS usage_record (
  event_id VARCHAR(191) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  family_id BIGINT NOT NULL,
  customer_id BIGINT NOT NULL,
  app_id VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  bytes_used BIGINT NOT NULL,
  event_time DATETIME(3) NOT NULL,
  quota_month DATE NOT NULL,
  partition_id INT NOT NULL,
  record_offset BIGINT NOT NULL,
  created_at DATETIME(3) NOT NULL,
  PRIMARY KEY (event_id),
  CONSTRAINT usage_record_ck CHECK (family_id >= 0 AND customer_id >= 0 AND bytes_used >= 0)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- One row a blocked event, with the figures it was decided on.
CREATE TABLE IF NOT EXISTS usage_block (
  event_id VARCHAR(191) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  family_id BIGINT NOT NULL,
  customer_id BIGINT NOT NULL,
  app_id VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  bytes_used BIGINT NOT NULL,
  event_time DATETIME(3) NOT NULL,
  quota_month DATE NOT NULL,
  partition_id INT NOT NULL,
  record_offset BIGINT NOT NULL,
  created_at DATETIME(3) NOT NULL,
  reason VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  remaining_bytes BIGINT NOT NULL,
  monthly_used_bytes BIGINT NOT NULL,
  monthly_limit_bytes BIGINT NOT NULL,
  PRIMARY KEY (event_id),
  CONSTRAINT usage_block_ck CHECK (family_id >= 0 AND customer_id >= 0 AND bytes_used >= 0)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- The guard against telling twice. alert holds percent-encoded text from outside
-- (APP_BLOCK: and up to 300 bytes).
CREATE TABLE IF NOT EXISTS alert_state (
  family_id BIGINT NOT NULL,
  customer_id BIGINT NOT NULL,
  quota_month DATE NOT NULL,
  alert VARCHAR(320) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  arming BIGINT NOT NULL DEFAULT 0,
  event_id VARCHAR(191) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  total_quota_bytes BIGINT NOT NULL,
  remaining_bytes BIGINT NOT NULL,
  told_at DATETIME(3) NOT NULL,
  PRIMARY KEY (family_id, customer_id, quota_month, alert, arming),
  CONSTRAINT alert_state_ck CHECK (family_id >= 0 AND customer_id >= 0)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- Two ways in: the sweep goes by (status, outbox_id), the order rule by
-- (status, family_id, outbox_id); the primary key ends both of them.
CREATE TABLE IF NOT EXISTS usage_event_outbox (
  outbox_id BIGINT NOT NULL AUTO_INCREMENT,
  event_id VARCHAR(191) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  family_id BIGINT NOT NULL,
  customer_id BIGINT NOT NULL,
  status ENUM('PUBLISH_PENDING','SENT','FAILED') NOT NULL,
  payload_json MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  retry_count INT NOT NULL DEFAULT 0,
  next_retry_at DATETIME(3) NULL,
  last_error VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  lease_owner BIGINT NULL,
  lease_until DATETIME(3) NULL,
  created_at DATETIME(3) NOT NULL,
  sent_at DATETIME(3) NULL,
  PRIMARY KEY (outbox_id),
  UNIQUE KEY usage_event_outbox_event (event_id),
  KEY usage_event_outbox_status (status),
  KEY usage_event_outbox_family (status, family_id),
  CONSTRAINT usage_event_outbox_ck CHECK (family_id >= 0 AND customer_id >= 0)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- owner is drawn at each assignment; batch_no counts the batches settled.
CREATE TABLE IF NOT EXISTS consumer_ledger (
  group_id VARCHAR(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  topic VARCHAR(249) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  partition_id INT NOT NULL,
  owner BIGINT NOT NULL DEFAULT 0,
  batch_no BIGINT NOT NULL DEFAULT 0,
  first_offset BIGINT NOT NULL,
  next_offset BIGINT NOT NULL,
  settled BIGINT NOT NULL DEFAULT 0,
  blocked BIGINT NOT NULL DEFAULT 0,
  duplicate BIGINT NOT NULL DEFAULT 0,
  rejected BIGINT NOT NULL DEFAULT 0,
  ignored BIGINT NOT NULL DEFAULT 0,
  gap BIGINT NOT NULL DEFAULT 0,
  paused TINYINT(1) NOT NULL DEFAULT 0,
  updated_at DATETIME(3) NOT NULL,
  PRIMARY KEY (group_id, topic, partition_id),
  CONSTRAINT consumer_ledger_ck CHECK (next_offset >= first_offset AND settled >= 0 AND blocked >= 0
    AND duplicate >= 0 AND rejected >= 0 AND ignored >= 0 AND gap >= 0)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- One row: the first month that is still open.
CREATE TABLE IF NOT EXISTS usage_floor (
  id TINYINT NOT NULL,
  closed_before DATE NOT NULL,
  PRIMARY KEY (id),
  CONSTRAINT usage_floor_ck CHECK (id = 1)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

INSERT INTO usage_floor (id, closed_before) VALUES (1, '1970-01-01') ON DUPLICATE KEY UPDATE id = VALUES(id);
