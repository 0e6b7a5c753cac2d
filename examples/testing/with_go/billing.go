// Package billing reads orders and writes an invoice for each.
package billing

import (
	"context"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
)

// Bill reads the topic orders in a consumer group, and writes an invoice for each order until the context ends. The key
// of an order is its customer, the value the price. An invoice has the price with the tax of 20 %.
func Bill(ctx context.Context, broker, group, orders, invoices string) error {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:  []string{broker},
		GroupID:  group,
		Topic:    orders,
		MinBytes: 1,
		MaxBytes: 1e6,
		MaxWait:  500 * time.Millisecond, // Close waits for the last poll
	})
	defer reader.Close()
	writer, err := kafka.DialLeader(ctx, "tcp", broker, invoices, 0)
	if err != nil {
		return err
	}
	defer writer.Close()
	for {
		order, err := reader.FetchMessage(ctx)
		if err != nil {
			return err
		}
		price, err := strconv.Atoi(string(order.Value))
		if err != nil {
			return err
		}
		invoice := kafka.Message{Key: order.Key, Value: []byte(strconv.Itoa(price * 120 / 100))}
		if _, err := writer.WriteMessages(invoice); err != nil {
			return err
		}
		if err := reader.CommitMessages(ctx, order); err != nil {
			return err
		}
	}
}
