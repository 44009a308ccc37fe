.PHONY: start stop test test\:long test\:cluster test\:fresh soak e2e build lint format generate bench
start stop test test\:long test\:cluster test\:fresh soak e2e build lint format generate bench:
	npm run $@ --silent
