-- SPDX-License-Identifier: MIT
-- The least that `tallyd run` needs in MySQL, for a user made before, in the database that
-- `tallyd migrate` has filled (as another user, who may create tables):
--
--   CREATE USER 'tallyd'@'%' IDENTIFIED BY '…';
--   mariadb DATABASE < config/grants.sql
--
-- What others write it only reads, but for family_quota, where it moves what was used (an upsert needs the
-- right for the whole table on MariaDB).

GRANT SELECT ON family TO 'tallyd'@'%';
GRANT SELECT ON family_member TO 'tallyd'@'%';
GRANT SELECT ON policy_assignment TO 'tallyd'@'%';
GRANT SELECT ON schema_migration TO 'tallyd'@'%';
GRANT SELECT ON usage_floor TO 'tallyd'@'%';
GRANT SELECT, INSERT, UPDATE ON family_quota TO 'tallyd'@'%';
GRANT SELECT, INSERT, UPDATE ON customer_quota TO 'tallyd'@'%';
GRANT SELECT, INSERT, UPDATE ON usage_record TO 'tallyd'@'%';
GRANT SELECT, INSERT, UPDATE ON usage_block TO 'tallyd'@'%';
GRANT SELECT, INSERT, UPDATE ON alert_state TO 'tallyd'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON usage_event_outbox TO 'tallyd'@'%';
GRANT SELECT, INSERT, UPDATE ON consumer_ledger TO 'tallyd'@'%';
GRANT SELECT, INSERT, UPDATE ON maintenance TO 'tallyd'@'%';

-- With maintain.usage_months, which closes months and prunes their events, these too:
-- GRANT UPDATE ON usage_floor TO 'tallyd'@'%';
-- GRANT DELETE ON usage_record TO 'tallyd'@'%';
-- GRANT DELETE ON usage_block TO 'tallyd'@'%';
