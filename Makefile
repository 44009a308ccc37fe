.PHONY: start stop test build lint format generate bench
start stop test build lint format generate bench:
	npm run $@ --silent
