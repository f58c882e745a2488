"""Events to Kafka, and jobs from Kafka.

    relay = KafkaRelay("broker:9092")             # a batch handler: await relay.handle(events)
    source = KafkaSource("broker:9092", ["orders"], "billing", to_job=..., enqueue=...)
    await source.run()                            # until cancelled

Both sides are at least once, with a constant id. Whoever consumes Kafka without a `KafkaSource` reads
messages with `event_of`, and makes the effect of each happen once by writing its id with it:

    event = event_of(message)
    with database.transaction() as tx:
        new = tx.execute("INSERT INTO seen (id) VALUES (%s) ON CONFLICT DO NOTHING", [event.id]).rowcount
        if new:
            ...  # the effect, through the same transaction
    consumer.commit(message)                      # only now

A repeat may come late, and between later messages: look the id up, do not compare with the last one. Events
with an aggregate also have `version`, which counts up for each; whoever keeps the last version that it has
seen of an aggregate needs no table of ids.
"""

try:
    import confluent_kafka as _driver
except ImportError:
    from holdfast.model.errors import ConfigurationError as _ConfigurationError

    raise _ConfigurationError(
        "Kafka needs the package confluent-kafka: pip install 'holdfast[kafka]'", setting="kafka"
    ) from None

from holdfast.kafka.message import KafkaMessage, event_of
from holdfast.kafka.relay import KafkaRelay
from holdfast.kafka.source import KafkaSource

__all__ = ["KafkaMessage", "KafkaRelay", "KafkaSource", "event_of"]
del _driver
