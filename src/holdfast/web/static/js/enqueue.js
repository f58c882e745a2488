// The form that enqueues a job by the name of its task.

import { form } from "./dialog.js";
import { href } from "./parts.js";

/** The tasks that are known; null after it was told that they could not be asked for. */
export async function tasksOf(page) {
  try {
    return (await page.api.get("tasks")).tasks;
  } catch (error) {
    page.app.toast(error.message, "bad");
    return null;
  }
}

/** The field for a task: a choice where tasks are known. */
export function taskField(tasks) {
  const names = tasks.map((task) => [task.name, task.name]);
  return names.length ? { name: "task", label: "Task", value: names[0][0], options: names, whole: true } : { name: "task", label: "Task", whole: true };
}

/** The arguments that were written as JSON. */
export function argumentsOf(given) {
  try {
    return JSON.parse(given.arguments || "{}");
  } catch (error) {
    throw Object.assign(new Error(`The arguments are not JSON: ${error.message}`), { field: "arguments" });
  }
}

export async function enqueueForm(page) {
  const tasks = await tasksOf(page);
  if (!tasks) return;
  const send = async (given) => {
    const body = { task: given.task, arguments: argumentsOf(given) };
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
      taskField(tasks),
      { name: "arguments", label: "Arguments (JSON)", type: "area", value: "{}", whole: true, hint: "By name, such as {\"to\": \"ada@example.org\"}." },
      { name: "queue", label: "Queue", placeholder: "the task's own" },
      { name: "priority", label: "Priority", type: "number", placeholder: "0", hint: "Lower numbers go first." },
      { name: "delay", label: "Delay (s)", type: "number", placeholder: "0" },
      { name: "key", label: "Idempotency key", placeholder: "none" },
      { name: "tags", label: "Tags", whole: true, placeholder: "separated by spaces" },
    ],
  });
}
