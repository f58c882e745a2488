// The form that enqueues a job by the name of its task.

import { form } from "./dialog.js";
import { href } from "./parts.js";

export async function enqueueForm(page) {
  let tasks = [];
  try {
    ({ tasks } = await page.api.get("tasks"));
  } catch (error) {
    page.app.toast(error.message, "bad");
    return;
  }
  const names = tasks.map((task) => [task.name, task.name]);
  const send = async (given) => {
    let args;
    try {
      args = JSON.parse(given.arguments || "{}");
    } catch (error) {
      throw Object.assign(new Error(`The arguments are not JSON: ${error.message}`), { field: "arguments" });
    }
    const body = { task: given.task, arguments: args };
    if (given.queue) body.queue = given.queue;
    if (given.priority) body.priority = Number(given.priority);
    if (given.delay) body.delay = Number(given.delay);
    if (given.key) body.key = given.key;
    if (given.tags) body.tags = given.tags.split(/[\s,]+/).filter(Boolean);
    const { job, created } = await page.api.post("jobs", body);
    page.app.toast(created ? "The job is stored." : "A job with this key was there already.", created ? "good" : "warn");
    page.app.go(href("jobs", job.id));
  };
  await form({
    title: "Enqueue a job", action: "Enqueue", send,
    fields: [
      names.length ? { name: "task", label: "Task", value: names[0][0], options: names, whole: true } : { name: "task", label: "Task", whole: true },
      { name: "arguments", label: "Arguments (JSON)", type: "area", value: "{}", whole: true, hint: "By name, such as {\"to\": \"ada@example.org\"}." },
      { name: "queue", label: "Queue", placeholder: "the task's own" },
      { name: "priority", label: "Priority", type: "number", placeholder: "0", hint: "Lower numbers go first." },
      { name: "delay", label: "Delay (s)", type: "number", placeholder: "0" },
      { name: "key", label: "Idempotency key", placeholder: "none" },
      { name: "tags", label: "Tags", whole: true, placeholder: "separated by spaces" },
    ],
  });
}
