-- The marks that package sqlguard keeps: of each resource the newest claim that was admitted.
-- Resources are compared byte by byte. A holder is a UUID of 36 characters; NULL: it has none.
CREATE TABLE fence_marks (
	resource TEXT    NOT NULL COLLATE BINARY PRIMARY KEY
	         CHECK (typeof(resource) = 'text' AND length(CAST(resource AS BLOB)) > 0),
	token    INTEGER NOT NULL CHECK (typeof(token) = 'integer' AND token > 0),
	holder   TEXT    COLLATE BINARY CHECK (holder IS NULL OR length(holder) = 36)
) WITHOUT ROWID;
