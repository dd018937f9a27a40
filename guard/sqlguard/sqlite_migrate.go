package sqlguard

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/migrations"
)

// migrate reads before it writes, so it needs a true BEGIN IMMEDIATE, which database/sql can't begin.
func (sqlite) migrate(ctx context.Context, conn *sql.Conn) (err error) {
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	committed := false
	defer func() {
		if !committed {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_, _ = conn.ExecContext(ctx, "ROLLBACK") // an error: SQLite has rolled back itself
		}
	}()
	if err := migrateIn(ctx, conn); err != nil {
		return err
	}
	if _, err := conn.ExecContext(context.WithoutCancel(ctx), "COMMIT"); err != nil {
		return err
	}
	committed = true
	return nil
}

func migrateIn(ctx context.Context, conn *sql.Conn) error {
	if _, err := conn.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS fence_migrations (
		version INTEGER PRIMARY KEY,
		name    TEXT NOT NULL,
		applied TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
	)`); err != nil {
		return err
	}
	for _, m := range migrations.SQLite.All() {
		result, err := conn.ExecContext(ctx, "INSERT OR IGNORE INTO fence_migrations (version, name) VALUES (?, ?)", m.Version, m.Name)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			if err != nil {
				return err
			}
			continue // applied before
		}
		if _, err := conn.ExecContext(ctx, m.Up); err != nil {
			return fmt.Errorf("migration %d %s: %w", m.Version, m.Name, err)
		}
	}
	return nil
}
