// The pages: where each is in the navigation, which paths it has, and which module shows it.

export const NAVIGATION = [
  { href: "/", text: "Overview" },
  { href: "/api-docs", text: "API" },
];

export const ROUTES = [
  ["/", () => import("/static/pages/overview.js")],
  ["/api-docs/:tag?", () => import("/static/pages/api_docs.js")],
];
