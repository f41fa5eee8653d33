"""The wire: events, effects, payloads, strict JSON and schemas; no threads, sockets or clocks."""
