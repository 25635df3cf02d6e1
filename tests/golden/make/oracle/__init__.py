"""The oracle: golden values from openai-whisper, the real library, instrumented and never re-implemented.

tests/golden/make/reference.py is the entry; each module here owns one kind of golden file. It runs in a private
environment (see `reference.py env`); the project's own tests only read what it wrote.
"""
