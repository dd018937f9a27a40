DROP TABLE fence_marks;
