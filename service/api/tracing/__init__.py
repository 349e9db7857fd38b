"""Traces of requests, sent to a collector in OpenTelemetry's protocol (OTLP)."""
