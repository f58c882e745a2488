// The sign-in page.

import { draw, h } from "./dom.js";

/** Asks for a token until one is accepted; `send` signs in with it. */
export function signIn(root, send, words = null) {
  const input = h("input", { class: "input", type: "password", name: "token", autocomplete: "current-password", required: true, autofocus: true, "aria-describedby": "signin-hint" });
  const problem = h("p", { class: "bad", role: "alert" }, words ?? "");
  const submit = h("button", { class: "button primary", type: "submit" }, "Sign in");
  const onsubmit = async (event) => {
    event.preventDefault();
    submit.setAttribute("aria-busy", "true");
    problem.textContent = "";
    try {
      await send(input.value.trim());
    } catch (error) {
      problem.textContent = error.status === 401 || error.status === 403 ? "This token is not accepted." : error.message;
      input.select();
    } finally {
      submit.removeAttribute("aria-busy");
    }
  };
  draw(root, h("div", { class: "signin" },
    h("form", { class: "card", onsubmit },
      h("img", { src: "static/icon.svg", alt: "", width: "36", height: "36" }),
      h("h1", null, "Sign in to Holdfast"),
      h("label", { class: "field" }, h("span", null, "Access token"), input),
      h("p", { class: "hint", id: "signin-hint" }, "holdfast web prints a sign-in address when it starts without tokens of its own. Otherwise ask whoever runs it."),
      problem, submit)));
  input.focus();
}
