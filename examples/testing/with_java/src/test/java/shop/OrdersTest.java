package shop;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;

/** The address of the broker is in the environment: ottla testing run -- mvn test. */
class OrdersTest {
    private static final String SERVERS = System.getenv("KAFKA_BOOTSTRAP_SERVERS");

    @Test
    void anOrderIsReadAsItWasWritten() throws Exception {
        String topic = "orders-" + UUID.randomUUID();
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", SERVERS))) {
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get();
        }
        try (var producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", SERVERS), new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>(topic, "franz", "desk")).get();
        }

        List<ConsumerRecord<String, String>> records = read(topic, 1);
        assertEquals("franz", records.get(0).key());
        assertEquals("desk", records.get(0).value());
    }

    private static List<ConsumerRecord<String, String>> read(String topic, int count) {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", SERVERS, "group.id", topic + "-reader", "auto.offset.reset", "earliest");
        var records = new ArrayList<ConsumerRecord<String, String>>();
        Instant deadline = Instant.now().plusSeconds(30);
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (records.size() < count && Instant.now().isBefore(deadline)) {
                consumer.poll(Duration.ofMillis(100)).forEach(records::add);
            }
        }
        assertEquals(count, records.size(), "records of " + topic + " after 30 s");
        return records;
    }
}
