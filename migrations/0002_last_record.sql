-- SPDX-License-Identifier: MIT
-- What the last record that a partition's row accounts for looked like: by it a
-- log is known again, since a topic that was made anew has offsets of the same
-- kind. NULL: not known. A column that's there already isn't added again
-- (neither server's ALTER says so in words that the other one knows).
SET @wanted = (SELECT IF(COUNT(*) = 0, 'ALTER TABLE consumer_ledger ADD COLUMN last_offset BIGINT NULL, ADD COLUMN last_timestamp_ms BIGINT NULL, ADD COLUMN last_checksum BIGINT NULL', 'DO 0')
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'consumer_ledger' AND column_name = 'last_offset');
PREPARE add_columns FROM @wanted;
EXECUTE add_columns;
DEALLOCATE PREPARE add_columns;
