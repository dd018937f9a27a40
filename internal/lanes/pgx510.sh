#!/bin/sh
# The lane for pgxmock: it compiles with pgx 5.10 at most, and this module uses a newer one. Its tests
# carry the build tag pgxmock and run with a go.mod of their own, which differs in that one version.
#
#   pgx510.sh generate   make pgx510.mod and pgx510.sum anew from go.mod; after every change of it
#   pgx510.sh check      fail if they are not what generate makes
#   pgx510.sh test       vet and test (golangci-lint can't load the lane)
set -eu

cd "$(dirname "$0")/../.."
lane=internal/lanes/pgx510.mod
packages=./guard/pgguard/...

generate() { # where
	cp go.mod "$1"
	cp go.sum "${1%.mod}.sum"
	go mod edit -require=github.com/jackc/pgx/v5@v5.10.0 "$1"
	go mod tidy -modfile="$1"
}

case "${1:-}" in
generate)
	generate "$lane"
	;;
check)
	scratch=$(mktemp -d)
	trap 'rm -rf "$scratch"' EXIT
	generate "$scratch/pgx510.mod"
	for file in pgx510.mod pgx510.sum; do
		diff -u "internal/lanes/$file" "$scratch/$file" || {
			echo "internal/lanes/$file is out of date: run internal/lanes/pgx510.sh generate" >&2
			exit 1
		}
	done
	;;
test)
	go vet -modfile="$lane" -tags pgxmock $packages
	.ci/gotest -race -shuffle=on -modfile="$lane" -tags pgxmock -run '^TestMock_' $packages
	;;
*)
	sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
