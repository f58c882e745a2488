// One change of all jobs that fit a filter, request after request.

/** Acts on all that fit; with how many it was done, and those that were refused. Ends early if the signal says so. */
export async function bulk(api, action, filter, signal) {
  const told = { done: 0, refused: [], more: true };
  let cursor = null;
  while (told.more && !signal.aborted) {
    const answer = await api.post("jobs/bulk", { action, filter, cursor });
    told.done += answer.done;
    told.refused.push(...answer.refused);
    told.more = answer.more;
    cursor = answer.cursor ?? cursor;
  }
  return told;
}
