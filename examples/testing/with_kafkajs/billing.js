// A service with KafkaJS: it writes an invoice for each order.
"use strict";

async function startBilling(kafka, { orders, invoices, groupId }) {
  const producer = kafka.producer();
  const consumer = kafka.consumer({ groupId });
  await producer.connect();
  await consumer.connect();
  await consumer.subscribe({ topics: [orders], fromBeginning: true });
  await consumer.run({
    eachMessage: async ({ message }) => {
      const order = JSON.parse(message.value);
      const value = JSON.stringify({ order: order.id, total: order.price * order.quantity });
      await producer.send({ topic: invoices, messages: [{ key: message.key, value }] });
    },
  });
  return async function stop() {
    await consumer.disconnect();
    await producer.disconnect();
  };
}

module.exports = { startBilling };
