// The cluster as a map: racks, switches and nodes as boxes, each GPU as a square in the colour of the job that uses it.
import { i18n } from "@lingui/core";
import { SegmentedControl } from "@mantine/core";
import { createContext, useContext, useState } from "react";
import { useNodes } from "@/api/cluster";
import { useAddress } from "@/ui/address";
import { Link } from "@/ui/Link";
import { Loaded, Note } from "@/ui/Loaded";
import css from "./Topology.module.css";
import { coloursOf } from "./colours";
import { heatName, heatOf, HOT_C, hottestOf, WARM_C, type Heat } from "./heat";
import { jobsOf, leavesOf, useTopology, type Leaf, type Place } from "./topology";

const JOBS_SHOWN = 40;

const Shown = createContext<{ lit: string; heat: Heat | null; colours: ReadonlyMap<string, string> }>({ lit: "", heat: null, colours: new Map() });

export default function Topology() {
  const [lit, setLit] = useState("");
  const [query, change] = useAddress();
  const measured = heatOf(useNodes().data ?? []);
  const isHeat = query["colour"] === "heat";
  return (
    <Loaded query={useTopology()} rows={8}>
      {(places) => {
        if (!places.length) return <Note icon="cluster" title={i18n.t("No nodes yet")}>{i18n.t("They appear as soon as the platform finds them.")}</Note>;
        const jobs = jobsOf(places);
        const colours = coloursOf(jobs.map(([job]) => job));
        return (
          <div className={css.both}>
            <Shown.Provider value={{ lit: isHeat ? "" : lit, heat: isHeat ? measured : null, colours }}>
              <div className={css.map}>{places.map((place) => <Box key={`${place.type}/${place.name}`} place={place} heat={measured} />)}</div>
            </Shown.Provider>
            <aside className={css.side} aria-label={i18n.t("Jobs on the map")}>
              <SegmentedControl size="xs" aria-label={i18n.t("Colours")} value={isHeat ? "heat" : "jobs"} onChange={(colour) => change({ colour: colour === "heat" ? "heat" : "" })}
                data={[{ value: "jobs", label: i18n.t("Jobs") }, { value: "heat", label: i18n.t("Temperature") }]} />
              {isHeat ? <HeatKey heat={measured} /> : (
                <ul className={css.key}>
                  <li><i data-is="free" />{i18n.t("free")}</li>
                  <li><i data-is="reserved" />{i18n.t("reserved")}</li>
                  <li><i data-is="bad" />{i18n.t("bad or drained")}</li>
                </ul>
              )}
              {!jobs.length && <p className={css.dim}>{i18n.t("No job uses the cluster now.")}</p>}
              <ul className={css.jobs}>
                {jobs.slice(0, JOBS_SHOWN).map(([job, count]) => (
                  <li key={job}>
                    <button type="button" aria-pressed={lit === job} aria-label={i18n.t("Show {job} on the map", { job })} onClick={() => setLit(lit === job ? "" : job)}><i style={{ background: colours.get(job) }} /></button>
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

/** What the colours of temperatures mean, and that nothing was measured. */
function HeatKey({ heat }: { heat: Heat }) {
  if (!heat.size) return <p className={css.dim}>{i18n.t("No temperature of a GPU is measured now: only those of GPUs at work are, and where the nodes have sensors.")}</p>;
  return (
    <ul className={css.key}>
      <li><i data-heat="cool" />{i18n.t("below {degrees} °C", { degrees: WARM_C })}</li>
      <li><i data-heat="warm" />{i18n.t("{from} to {to} °C", { from: WARM_C, to: HOT_C })}</li>
      <li><i data-heat="hot" />{i18n.t("{degrees} °C and more", { degrees: HOT_C })}</li>
      <li><i data-heat="none" />{i18n.t("not measured")}</li>
      <li><i data-is="bad" />{i18n.t("bad or drained")}</li>
    </ul>
  );
}

function Box({ place, heat }: { place: Place; heat: Heat }) {
  if (place.isNode) return <NodeBox place={place} heat={heat} />;
  return (
    <section className={css.box} aria-label={`${place.type} ${place.name}`}>
      <p className={css.label}>{place.name} <span>{place.type}</span></p>
      <div className={css.inner}>{place.places.map((one) => <Box key={`${one.type}/${one.name}`} place={one} heat={heat} />)}</div>
    </section>
  );
}

function NodeBox({ place, heat }: { place: Place; heat: Heat }) {
  const [, change] = useAddress();
  const leaves = leavesOf(place);
  const isUsed = (leaf: Leaf) => leaf.state === "used" || (leaf.state === "bad" && leaf.job !== "");
  const count = (is: (leaf: Leaf) => boolean) => leaves.filter(is).length;
  const hottest = hottestOf(place.name, leaves, heat);
  const degrees = hottest === undefined ? "" : ` ${Math.round(hottest)} °C`;
  // What is seen of it is part of its name.
  const words = i18n.t("{name}: {used} of {total} in use, {bad} bad or drained", { name: place.name + degrees, used: count(isUsed), total: leaves.length, bad: count((leaf) => leaf.state === "bad") });
  return (
    <button type="button" className={css.node} data-bad={place.isBad || undefined} aria-label={words} onClick={() => change({ node: place.name })}>
      <span className={css.label}>{place.name}{degrees && <span className={css.degrees} data-heat={heatName(hottest)}>{degrees}</span>}</span>
      <Groups node={place.name} place={place} />
    </button>
  );
}

/** The GPUs of a node; those behind one switch are closer together. */
function Groups({ node, place }: { node: string; place: Place }) {
  return (
    <span className={css.groups}>
      {place.leaves.length > 0 && <span className={css.group}>{place.leaves.map((leaf) => <Square key={leaf.index} node={node} leaf={leaf} />)}</span>}
      {place.places.map((one) => <Groups key={one.name} node={node} place={one} />)}
    </span>
  );
}

function Square({ node, leaf }: { node: string; leaf: Leaf }) {
  const { lit, heat, colours } = useContext(Shown);
  const degrees = heat?.get(`${node}/${leaf.index}`);
  const title = [leaf.job ? `${leaf.index}: ${leaf.job}` : String(leaf.index), degrees !== undefined && `${Math.round(degrees)} °C`].filter(Boolean).join(" · ");
  if (heat) return <i data-is={leaf.state} data-heat={leaf.state === "bad" ? undefined : heatName(degrees)} title={title} />;
  return <i data-is={leaf.state} data-dim={(lit && leaf.job !== lit) || undefined} title={title} style={leaf.job ? { background: colours.get(leaf.job) } : undefined} />;
}
