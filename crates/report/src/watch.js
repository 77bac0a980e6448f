// Counts whatever goes wrong on this page, from before the first library is read. The count
// stands on the root element, where a test and a curious reader find it.
"use strict";
document.documentElement.dataset.errors = "0";
const countError = () => {
  const { dataset } = document.documentElement;
  dataset.errors = String(Number(dataset.errors) + 1);
};
addEventListener("error", countError);
addEventListener("unhandledrejection", countError);
addEventListener("securitypolicyviolation", countError);
