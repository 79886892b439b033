-- SPDX-License-Identifier: MIT
-- How far `tallyd maintain` is with what it prunes, a row a task. outbox: rows that were sent before `goal`
-- may be gone. usage_record, usage_block: rows of months before `goal` may be; `walked_to` is the last event
-- id that was looked at, '' at the beginning, NULL once the whole table was. A goal never falls.
CREATE TABLE IF NOT EXISTS maintenance (
  task VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  goal DATETIME(3) NOT NULL,
  walked_to VARCHAR(191) CHARACTER SET ascii COLLATE ascii_bin NULL,
  pruned BIGINT NOT NULL DEFAULT 0,
  updated_at DATETIME(3) NOT NULL,
  PRIMARY KEY (task)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- When an operator sent a FAILED row on its way again; NULL: never. Such a row may come after later ones of its family.
SET @wanted = (SELECT IF(COUNT(*) = 0, 'ALTER TABLE usage_event_outbox ADD COLUMN retried_at DATETIME(3) NULL', 'DO 0')
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'usage_event_outbox' AND column_name = 'retried_at');
PREPARE add_columns FROM @wanted;
EXECUTE add_columns;
DEALLOCATE PREPARE add_columns;
