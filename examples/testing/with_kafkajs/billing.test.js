// Run it with a broker of its own:  ottla testing run -- npm test
"use strict";

const assert = require("node:assert/strict");
const { randomUUID } = require("node:crypto");
const { test } = require("node:test");
const { Kafka, logLevel } = require("kafkajs");
const { startBilling } = require("./billing.js");

const kafka = new Kafka({
  clientId: "billing-test",
  brokers: process.env.KAFKA_BOOTSTRAP_SERVERS.split(","),
  logLevel: logLevel.ERROR,
});

// Return the first messages of a topic.
async function readMessages(topic, count) {
  const consumer = kafka.consumer({ groupId: `reader-${randomUUID()}` });
  const messages = [];
  await consumer.connect();
  try {
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    await new Promise((resolve, reject) => {
      consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
      consumer.run({
        eachMessage: async ({ message }) => {
          messages.push(message);
          if (messages.length === count) resolve();
        },
      });
    });
  } finally {
    await consumer.disconnect();
  }
  return messages;
}

test("every order has an invoice", async () => {
  const orders = `orders-${randomUUID()}`;
  const invoices = `${orders}-invoices`;
  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({ topics: [{ topic: orders }, { topic: invoices }], waitForLeaders: true });
  await admin.disconnect();

  const producer = kafka.producer();
  await producer.connect();
  const order = JSON.stringify({ id: 1, price: 10, quantity: 2 });
  await producer.send({ topic: orders, messages: [{ key: "franz", value: order }] });
  await producer.disconnect();

  const stop = await startBilling(kafka, { orders, invoices, groupId: `${orders}-billing` });
  try {
    const [invoice] = await readMessages(invoices, 1);
    assert.equal(invoice.key.toString(), "franz");
    assert.deepEqual(JSON.parse(invoice.value), { order: 1, total: 20 });
  } finally {
    await stop();
  }
});
