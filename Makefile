# make run    a chat in this terminal that answers; ARGS='-m "one question"' is handed to nanobee cli
# make test   every check and every test
# make check  the checks alone
# make bench  what a start costs, against its limits
# make lock   new versions into requirements/, from pyproject.toml (needs uv)
# PYTHON=python3.12 chooses the interpreter.
.PHONY: run test check bench lock clean

run:
	@scripts/run $(ARGS)

test:
	@scripts/test all

check:
	@scripts/test check

bench:
	@scripts/environment .venv-test requirements/test.txt
	@.venv-test/bin/python -m benchmarks.start $(ARGS)

LOCK = uv pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes --upgrade \
	--no-header --no-emit-index-url --no-emit-find-links pyproject.toml --extra all

lock:
	env -u PIP_FIND_LINKS $(LOCK) --group install -o requirements/run.txt
	env -u PIP_FIND_LINKS $(LOCK) --group dev -c requirements/run.txt -o requirements/test.txt

clean:
	rm -rf .venv .venv-test build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
