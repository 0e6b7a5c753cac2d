// The pages: where each is in the navigation, which paths it has, and which module shows it.

export const NAVIGATION = [
  { href: "/", text: "Overview" },
  { href: "/topics", text: "Topics" },
  { href: "/groups", text: "Groups" },
  { href: "/brokers", text: "Brokers" },
  { href: "/transactions", text: "Transactions" },
  { href: "/security", text: "Security" },
  { href: "/inside", text: "Inside" },
  { href: "/api-docs", text: "API" },
];

export const ROUTES = [
  ["/", () => import("./pages/overview.js")],
  ["/topics", () => import("./pages/topics.js")],
  ["/topics/:topic/:tab?", () => import("./pages/topic.js")],
  ["/brokers", () => import("./pages/brokers.js")],
  ["/transactions", () => import("./pages/transactions.js")],
  ["/transactions/:id", () => import("./pages/transaction.js")],
  ["/brokers/:id/:tab?", () => import("./pages/broker.js")],
  ["/security/:tab?", () => import("./pages/security.js")],
  ["/inside/:view?", () => import("./pages/inside.js")],
  ["/groups", () => import("./pages/groups.js")],
  ["/groups/:group/:tab?", () => import("./pages/group.js")],
  ["/api-docs/:tag?", () => import("./pages/api_docs.js")],
];
