-- The marks of package pgguard: for each resource the newest claim that was admitted.
--
-- Names are unqualified: everything lands in the first schema of the search_path.

CREATE TABLE fence_marks (
	resource text COLLATE "C" PRIMARY KEY CHECK (octet_length(resource) BETWEEN 1 AND 512),
	token    bigint NOT NULL CHECK (token > 0),
	holder   uuid NOT NULL -- zero: unknown
) WITH (fillfactor = 70); -- room on the page: a mark is raised without touching its index

COMMENT ON TABLE fence_marks IS
	'Ringfence: the newest claim admitted for each resource. Rows are never deleted: that would let old claims in again.';

-- fence_admit checks a claim against the mark of its resource and raises the mark to it, or fails:
--
--   RF001 stale      the token is below the mark
--   RF003 duplicate  the token equals the mark, the holder is another
--   RF004 replayed   the token equals the mark and may write only once: a holder is zero, which means unknown
--   22023            an argument is null or out of range
--
-- The DETAIL of a refusal is JSON: resource, token and mark as strings, never a holder.
--
-- An admitted claim always writes the row, also when the row doesn't change. A transaction at
-- REPEATABLE READ that waited for this one then fails with 40001 and is tried again; if the row were
-- only locked, it would go on with a snapshot from before this transaction's writes.
CREATE FUNCTION fence_admit(resource text, token bigint, holder uuid) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	nobody CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
	seen   record;
	code   text;
	reason text;
BEGIN
	IF fence_admit.resource IS NULL OR octet_length(fence_admit.resource) NOT BETWEEN 1 AND 512 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE =
			format('fence: resource %L: want 1 to 512 bytes', left(fence_admit.resource, 40));
	ELSIF fence_admit.token IS NULL OR fence_admit.token < 1 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE =
			format('fence: token %s: want 1 to 9223372036854775807', coalesce(fence_admit.token::text, 'NULL'));
	ELSIF fence_admit.holder IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE =
			'fence: holder NULL: want a UUID, the zero UUID if it is unknown';
	END IF;

	-- This locks the mark also when it leaves it as it is.
	INSERT INTO fence_marks AS mark (resource, token, holder)
	VALUES (fence_admit.resource, fence_admit.token, fence_admit.holder)
	ON CONFLICT (resource) DO UPDATE SET token = excluded.token, holder = excluded.holder
	WHERE mark.token < excluded.token
	   OR (mark.token = excluded.token AND mark.holder = excluded.holder AND excluded.holder <> nobody);
	IF FOUND THEN
		RETURN;
	END IF;

	-- The reason is read by a second statement: the first one's snapshot may be older than the mark it met.
	SELECT mark.token, mark.holder INTO STRICT seen FROM fence_marks AS mark WHERE mark.resource = fence_admit.resource;
	IF fence_admit.token < seen.token THEN
		code := 'RF001';
		reason := 'stale';
	ELSIF fence_admit.holder = nobody OR seen.holder = nobody THEN
		code := 'RF004';
		reason := 'replayed';
	ELSE
		code := 'RF003';
		reason := 'duplicate';
	END IF;
	RAISE EXCEPTION USING
		ERRCODE = code,
		MESSAGE = format('fence: %s: token %s of resource %s refused, the mark is %s',
			reason, fence_admit.token, to_json(fence_admit.resource), seen.token),
		DETAIL = json_build_object('resource', fence_admit.resource,
			'token', fence_admit.token::text, 'mark', seen.token::text)::text;
END
$$;

COMMENT ON FUNCTION fence_admit(text, bigint, uuid) IS
	'Ringfence: admit a claim to the current transaction, or fail with RF001 (stale), RF003 (duplicate) or RF004 (replayed).';

-- The function finds the marks beside it, whatever search_path its caller has.
DO $$
BEGIN
	EXECUTE format('ALTER FUNCTION fence_admit(text, bigint, uuid) SET search_path = %I, pg_temp', current_schema());
END
$$;
