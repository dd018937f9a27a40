-- This forgets every mark: claims that were shut out can get in again.

DROP FUNCTION fence_admit(text, bigint, uuid);

DROP TABLE fence_marks;
