-- SPDX-License-Identifier: MIT
-- Since when a partition is paused, so that its age survives restarts. NULL: it
-- isn't paused, or whoever paused it didn't say. A column that's there already
-- isn't added again.
SET @wanted = (SELECT IF(COUNT(*) = 0, 'ALTER TABLE consumer_ledger ADD COLUMN paused_since DATETIME(3) NULL', 'DO 0')
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'consumer_ledger' AND column_name = 'paused_since');
PREPARE add_column FROM @wanted;
EXECUTE add_column;
DEALLOCATE PREPARE add_column;
