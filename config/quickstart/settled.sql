-- SPDX-License-Identifier: MIT
-- What the sample event has come to: its family's month, and what became of the alert.
SELECT u.event_id, u.bytes_used, q.quota_month, q.used_bytes, q.total_quota_bytes - q.used_bytes AS remaining_bytes,
       o.status AS notification
FROM usage_record u
JOIN family_quota q ON q.family_id = u.family_id AND q.quota_month = u.quota_month
LEFT JOIN usage_event_outbox o ON o.event_id = u.event_id
WHERE u.family_id = 100042;
