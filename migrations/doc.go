// Package migrations holds the SQL that creates the guards' own tables and functions. It is embedded:
// a program needs no files beside it.
//
// There is one source per database, and a view of it for each tool:
//
//	pgguard.Migrate(ctx, pool)                                   // no tool
//	iofs.New(migrations.Postgres.Pairs(), ".")                   // golang-migrate: 0001_name.up.sql, 0001_name.down.sql
//	goose.NewProvider(dialect, db, migrations.Postgres.Goose())  // goose: 0001_name.sql
//
// Use one of them for a schema, not two: each keeps its own record of what it has applied. The numbers
// begin at 1, so a tool that looks after migrations of yours as well needs a version table of its own
// for these - or copy the SQL into a migration of yours.
//
// The names in the SQL are unqualified. On PostgreSQL everything lands in the first schema of the
// search_path, and fence_admit works on the marks beside it from then on, whatever the search_path of
// its caller. A role that is not the owner needs USAGE on the schema and SELECT, INSERT and UPDATE on
// fence_marks.
//
// Down migrations drop the marks: claims that were shut out can get in again. Run them with the tool that
// ran the Up; if that was Migrate, delete its record (fence_migrations) as well.
package migrations
