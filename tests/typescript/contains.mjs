/** The schemas leave out what they cannot read, and put in what is usual: all that there was must still be there. */
export function contains(made, value) {
  if (Array.isArray(value)) {
    return Array.isArray(made) && made.length === value.length && value.every((item, at) => contains(made[at], item));
  }
  if (value === null || typeof value !== "object") return made === value;
  return typeof made === "object" && Object.keys(value).every((key) => contains(made[key], value[key]));
}
