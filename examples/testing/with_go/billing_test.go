// Run it with a broker of its own:  ottla testing run -- go test
package billing

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
)

// newTopics creates topics with names that no other test uses, on the broker that `ottla testing run` has started.
func newTopics(t *testing.T, broker string, names ...string) []string {
	connection, err := kafka.Dial("tcp", broker)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	created := make([]string, len(names))
	for i, name := range names {
		created[i] = fmt.Sprintf("%s-%d", name, time.Now().UnixNano())
		topic := kafka.TopicConfig{Topic: created[i], NumPartitions: 1, ReplicationFactor: 1}
		if err := connection.CreateTopics(topic); err != nil {
			t.Fatal(err)
		}
	}
	return created
}

func TestEveryOrderIsBilled(t *testing.T) {
	broker := os.Getenv("KAFKA_BOOTSTRAP_SERVERS")
	topics := newTopics(t, broker, "orders", "invoices")
	orders, invoices := topics[0], topics[1]
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	producer, err := kafka.DialLeader(ctx, "tcp", broker, orders, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	if _, err := producer.WriteMessages(
		kafka.Message{Key: []byte("franz"), Value: []byte("100")},
		kafka.Message{Key: []byte("ottla"), Value: []byte("50")},
	); err != nil {
		t.Fatal(err)
	}

	billing, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- Bill(billing, broker, "group-of-"+orders, orders, invoices) }()

	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:  []string{broker},
		Topic:    invoices,
		MinBytes: 1,
		MaxBytes: 1e6,
		MaxWait:  500 * time.Millisecond,
	})
	defer reader.Close()
	for _, expected := range []string{"franz: 120", "ottla: 60"} {
		invoice, err := reader.ReadMessage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if found := fmt.Sprintf("%s: %s", invoice.Key, invoice.Value); found != expected {
			t.Errorf("%s, not %s", found, expected)
		}
	}

	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the service has ended with %v", err)
	}
}
