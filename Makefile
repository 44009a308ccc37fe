.PHONY: start stop test e2e build lint format generate bench
start stop test e2e build lint format generate bench:
	npm run $@ --silent
