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
  ["/", () => import("/static/pages/overview.js")],
  ["/topics", () => import("/static/pages/topics.js")],
  ["/topics/:topic/:tab?", () => import("/static/pages/topic.js")],
  ["/brokers", () => import("/static/pages/brokers.js")],
  ["/transactions", () => import("/static/pages/transactions.js")],
  ["/transactions/:id", () => import("/static/pages/transaction.js")],
  ["/brokers/:id/:tab?", () => import("/static/pages/broker.js")],
  ["/security/:tab?", () => import("/static/pages/security.js")],
  ["/inside/:view?", () => import("/static/pages/inside.js")],
  ["/groups", () => import("/static/pages/groups.js")],
  ["/groups/:group/:tab?", () => import("/static/pages/group.js")],
  ["/api-docs/:tag?", () => import("/static/pages/api_docs.js")],
];
