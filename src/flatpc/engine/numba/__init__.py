"""The CPU engine: native code, evidence shared between rows."""
