-- SPDX-License-Identifier: MIT
-- A family with two members that shares 10 MiB a month. Later months take the total of the latest earlier one.
INSERT INTO family (family_id, name) VALUES (100042, 'Sample family');
INSERT INTO family_member (family_id, customer_id) VALUES (100042, 200187), (100042, 200188);
INSERT INTO family_quota (family_id, quota_month, total_quota_bytes) VALUES (100042, '2026-01-01', 10485760);
