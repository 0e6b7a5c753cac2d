// What nearly every page needs, for one import. Only modules that every page loads anyway are here.

export * from "./api.js";
export * from "./dom.js";
export * from "./format.js";
export * from "./parts.js";
export * from "./poll.js";
export * from "./router.js";
