-- SPDX-License-Identifier: MIT
-- Whose trace a notification belongs to: its event's W3C traceparent, as it
-- goes on with it. NULL: the event had none. A column that's there already
-- isn't added again (neither server's ALTER says so in words that the other
-- one knows).
SET @wanted = (SELECT IF(COUNT(*) = 0, 'ALTER TABLE usage_event_outbox ADD COLUMN traceparent VARCHAR(55) CHARACTER SET ascii COLLATE ascii_bin NULL', 'DO 0')
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'usage_event_outbox' AND column_name = 'traceparent');
PREPARE add_column FROM @wanted;
EXECUTE add_column;
DEALLOCATE PREPARE add_column;
