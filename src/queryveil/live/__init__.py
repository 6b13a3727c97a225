"""Run the stream mechanism for months beside a real log pipeline: connectors, checkpoints, shards, operations."""
