// SPDX-License-Identifier: Apache-2.0
//! The longest response time over the time of each load: the loads of a ladder stand side by side, from the fewest threads to the most.

use super::chart::Step;
use super::groups::Group;
use allocators::{Load, Longest};

/// The most steps of one chart. Where the loads take more seconds, a step is several seconds.
const MOST_STEPS: usize = 60;
/// The shortest step, in seconds. The slots of a load are shorter.
const SHORTEST_S: f64 = 1.0;

pub(super) struct Course<'a> {
    group: &'a Group<'a>,
    workload: &'a str,
    ladder: Vec<u32>,
    /// The begin of each step of one load, in seconds from the begin of the load.
    begins_s: Vec<f64>,
    /// The length of a step.
    step_s: f64,
}

impl<'a> Course<'a> {
    pub(super) fn of(group: &'a Group<'a>, workload: &'a str) -> Self {
        let ladder = group.ladder(workload);
        let slots = group.of_workload(workload).flat_map(|load| &load.max_over_time);
        let length_s = slots.map(|it| it.at_s.floor() + SHORTEST_S).fold(0.0, f64::max);
        let most = (MOST_STEPS / ladder.len().max(1)).max(1);
        let step_s = (length_s / most as f64).ceil().max(SHORTEST_S);
        let begins_s = (0..most).map(|nth| nth as f64 * step_s).take_while(|begin_s| *begin_s < length_s).collect();
        Self { group, workload, ladder, begins_s, step_s }
    }

    pub(super) fn steps(&self) -> Vec<Step> {
        let of_load = |threads: &u32| {
            self.begins_s
                .iter()
                .enumerate()
                .map(|(nth, begin_s)| self.step(*threads, nth, *begin_s))
                .collect::<Vec<_>>()
        };
        self.ladder.iter().flat_map(of_load).collect()
    }

    /// The number of threads stands below the first step of its load.
    fn step(&self, threads: u32, nth: usize, begin_s: f64) -> Step {
        let label = if nth == 0 { threads.to_string() } else { String::new() };
        let name = format!("{threads} threads, {begin_s} s to {} s", begin_s + self.step_s);
        Step { label, name, is_apart: nth == 0 }
    }

    /// For each step, the longest response time in each cell, in microseconds. A cell in which no transaction ended has no value there.
    pub(super) fn values(&self, malloc: &str) -> Vec<Vec<f64>> {
        let of_load = |threads: &u32| {
            let loads: Vec<&Load> = self.group.loads(malloc, self.workload, Some(*threads)).collect();
            self.begins_s
                .iter()
                .map(|begin_s| loads.iter().filter_map(|load| self.longest(load, *begin_s)).collect())
                .collect::<Vec<_>>()
        };
        self.ladder.iter().flat_map(of_load).collect()
    }

    fn longest(&self, load: &Load, begin_s: f64) -> Option<f64> {
        let is_in = |it: &&Longest| (begin_s..begin_s + self.step_s).contains(&it.at_s);
        let slots = load.max_over_time.iter().filter(is_in);
        slots.map(|it| it.max_us).max().filter(|us| *us > 0).map(|us| us as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::groups::groups;
    use super::*;
    use allocators::Cell;

    /// Two slots for each second; the longest of the seconds are 0, 1, 2, 3, 4, 0, 1 ms, and so on.
    fn load(threads: u32, seconds: u64) -> Load {
        let slots = |nth: u64| {
            let (at_s, max_us) = (nth as f64, nth % 5 * 1000);
            [Longest { at_s, max_us: max_us / 2 }, Longest { at_s: at_s + 0.5, max_us }]
        };
        Load { workload: "w".into(), threads, max_over_time: (0..seconds).flat_map(slots).collect(), ..Load::default() }
    }

    fn cell(malloc: &str, seconds: u64) -> Cell {
        let loads = vec![load(8, seconds), load(64, seconds)];
        Cell { malloc: malloc.into(), as_asked: true, state: "done".into(), loads, ..Cell::default() }
    }

    #[test]
    fn each_second_of_each_load_is_a_step_and_a_second_without_an_end_has_no_value() {
        let cells = [cell("a", 3), cell("a", 4), cell("b", 3)];
        let groups = groups(&cells);
        let course = Course::of(&groups[0], "w");
        let steps = course.steps();
        let labels: Vec<&str> = steps.iter().map(|step| step.label.as_str()).collect();
        assert_eq!(labels, ["8", "", "", "", "64", "", "", ""]);
        assert!(steps.iter().all(|step| step.is_apart != step.label.is_empty()));
        assert_eq!(steps[5].name, "64 threads, 1 s to 2 s");
        let (none, both) = (Vec::<f64>::new(), |us: f64| vec![us, us]);
        let of_load = [none, both(1000.0), both(2000.0), vec![3000.0]];
        assert_eq!(course.values("a"), [of_load.clone(), of_load].concat());
    }

    #[test]
    fn a_long_load_has_steps_of_several_seconds_and_loses_no_maximum() {
        let cells = [cell("a", 600)];
        let groups = groups(&cells);
        let course = Course::of(&groups[0], "w");
        assert_eq!(course.steps().len(), 60);
        assert_eq!(course.steps()[1].name, "8 threads, 20 s to 40 s");
        assert!(course.values("a").iter().all(|values| *values == [4000.0]));
    }
}
