// The cluster as a map: racks, switches and nodes as boxes, each GPU as a square in the colour of the job that uses it.
import { i18n } from "@lingui/core";
import { useState } from "react";
import { useAddress } from "@/ui/address";
import { Link } from "@/ui/Link";
import { Loaded, Note } from "@/ui/Loaded";
import css from "./Topology.module.css";
import { jobsOf, leavesOf, useTopology, type Leaf, type Place } from "./topology";

const JOBS_SHOWN = 40;

/** Returns a colour that is the same for a job wherever it is shown. */
function colourOf(job: string): string {
  let hash = 0x811c9dc5;
  for (const letter of job) hash = Math.imul(hash ^ letter.charCodeAt(0), 0x01000193) >>> 0;
  // Red is for what is bad.
  return `hsl(${25 + (hash % 310)} ${50 + ((hash >>> 9) % 30)}% ${42 + ((hash >>> 16) % 22)}%)`;
}

export default function Topology() {
  const [lit, setLit] = useState("");
  return (
    <Loaded query={useTopology()} rows={8}>
      {(places) => {
        if (!places.length) return <Note icon="cluster" title={i18n.t("No nodes yet")}>{i18n.t("They appear as soon as the platform finds them.")}</Note>;
        const jobs = jobsOf(places);
        return (
          <div className={css.both}>
            <div className={css.map}>{places.map((place) => <Box key={`${place.type}/${place.name}`} place={place} lit={lit} />)}</div>
            <aside className={css.side} aria-label={i18n.t("Jobs on the map")}>
              <ul className={css.key}>
                <li><i data-is="free" />{i18n.t("free")}</li>
                <li><i data-is="reserved" />{i18n.t("reserved")}</li>
                <li><i data-is="bad" />{i18n.t("bad")}</li>
              </ul>
              {!jobs.length && <p className={css.dim}>{i18n.t("No job uses the cluster now.")}</p>}
              <ul className={css.jobs}>
                {jobs.slice(0, JOBS_SHOWN).map(([job, count]) => (
                  <li key={job}>
                    <button type="button" aria-pressed={lit === job} aria-label={i18n.t("Show {job} on the map", { job })} onClick={() => setLit(lit === job ? "" : job)}><i style={{ background: colourOf(job) }} /></button>
                    <Link to={`/jobs/${job}`}>{job}</Link>
                    <span className={css.dim}>{count}</span>
                  </li>
                ))}
              </ul>
              {jobs.length > JOBS_SHOWN && <p className={css.dim}>+{jobs.length - JOBS_SHOWN}</p>}
            </aside>
          </div>
        );
      }}
    </Loaded>
  );
}

function Box({ place, lit }: { place: Place; lit: string }) {
  if (place.isNode) return <NodeBox place={place} lit={lit} />;
  return (
    <section className={css.box} aria-label={`${place.type} ${place.name}`}>
      <p className={css.label}>{place.name} <span>{place.type}</span></p>
      <div className={css.inner}>{place.places.map((one) => <Box key={`${one.type}/${one.name}`} place={one} lit={lit} />)}</div>
    </section>
  );
}

function NodeBox({ place, lit }: { place: Place; lit: string }) {
  const [, change] = useAddress();
  const leaves = leavesOf(place);
  const count = (state: Leaf["state"]) => leaves.filter((leaf) => leaf.state === state).length;
  const words = i18n.t("{name}: {used} of {total} in use, {bad} bad", { name: place.name, used: count("used"), total: leaves.length, bad: count("bad") });
  return (
    <button type="button" className={css.node} data-bad={place.isBad || undefined} aria-label={words} onClick={() => change({ node: place.name })}>
      <span className={css.label}>{place.name}</span>
      <Groups place={place} lit={lit} />
    </button>
  );
}

/** The GPUs of a node; those behind one switch are closer together. */
function Groups({ place, lit }: { place: Place; lit: string }) {
  return (
    <span className={css.groups}>
      {place.leaves.length > 0 && <span className={css.group}>{place.leaves.map((leaf) => <Square key={leaf.index} leaf={leaf} lit={lit} />)}</span>}
      {place.places.map((one) => <Groups key={one.name} place={one} lit={lit} />)}
    </span>
  );
}

function Square({ leaf, lit }: { leaf: Leaf; lit: string }) {
  const isColoured = leaf.job && leaf.state !== "bad";
  return <i data-is={leaf.state} data-dim={(lit && leaf.job !== lit) || undefined} title={leaf.job ? `${leaf.index}: ${leaf.job}` : String(leaf.index)} style={isColoured ? { background: colourOf(leaf.job) } : undefined} />;
}
