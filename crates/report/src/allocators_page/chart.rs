// SPDX-License-Identifier: Apache-2.0
//! A chart of lines over a few named steps: SVG that needs no script. It is as wide as the page; on a phone a user scrolls it.

use crate::html::Text;
use std::io::{self, Write};

const WIDTH: f64 = 1040.0;
const LEFT: f64 = 100.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 12.0;
const PLOT: f64 = 240.0;
/// The height below the plot, when the names of the steps are short and when they stand at an angle.
const BELOW: [f64; 2] = [46.0, 116.0];
/// The longest name, in letters, that fits below a step when the names are level, and when they stand at an angle.
const SHORT: usize = 8;
const LONG: usize = 24;
const COLOURS: usize = 6;
/// The most intervals between grid lines.
const GRID_LINES: f64 = 5.0;

pub(super) struct Chart<'a> {
    pub(super) title: String,
    pub(super) steps: &'a [Step],
    /// What the steps are, in words; empty where their names say it.
    pub(super) of_steps: &'a str,
    pub(super) shown: fn(f64) -> String,
    /// Bytes have grid lines at powers of two.
    pub(super) is_bytes: bool,
    pub(super) lines: Vec<Line>,
}

/// A place on the horizontal axis.
pub(super) struct Step {
    /// The text below the axis; empty where the label of the step before is enough.
    pub(super) label: String,
    /// The text that appears when the mouse rests on a point.
    pub(super) name: String,
    /// No line goes from the step before to this one.
    pub(super) is_apart: bool,
}

pub(super) struct Line {
    pub(super) name: String,
    pub(super) colour: usize,
    pub(super) points: Vec<Point>,
}

/// The values at one step.
pub(super) struct Point {
    pub(super) step: usize,
    pub(super) typical: f64,
    /// The value of each cell.
    pub(super) values: Vec<f64>,
}

impl Chart<'_> {
    /// Writes nothing when there is no value.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let all = self.lines.iter().flat_map(|line| &line.points).flat_map(|point| &point.values);
        let Some(highest) = all.copied().reduce(f64::max).filter(|highest| *highest > 0.0) else { return Ok(()) };
        let is_angled = self.steps.iter().any(|step| step.label.chars().count() > SHORT);
        let (top, height) = (highest * 1.06, TOP + PLOT + BELOW[usize::from(is_angled)]);
        let y = |value: f64| TOP + (1.0 - value.max(0.0) / top) * PLOT;
        writeln!(out, "<figure><figcaption><h3>{}</h3></figcaption>\n<div class=\"legend\">", Text(&self.title))?;
        for line in &self.lines {
            let (colour, dash) = (line.colour % COLOURS, dash(line.colour));
            writeln!(
                out,
                "<span><svg width=\"18\" height=\"10\" aria-hidden=\"true\"><line class=\"line s{colour} {dash}\" x1=\"0\" x2=\"18\" y1=\"5\" y2=\"5\"/></svg>{}</span>",
                Text(&line.name)
            )?;
        }
        writeln!(
            out,
            "</div>\n<div class=\"plot wide\"><svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">",
            Text(&self.title)
        )?;
        for value in grid(top, self.is_bytes) {
            let (y, left) = (y(value), LEFT - 8.0);
            writeln!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text x=\"{left}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                y + 4.0,
                Text((self.shown)(value))
            )?;
        }
        self.borders(out)?;
        self.names_of_steps(is_angled, height, out)?;
        self.lines.iter().try_for_each(|line| self.line(line, &y, out))?;
        writeln!(out, "</svg></div></figure>")
    }

    fn x(&self, step: usize) -> f64 {
        LEFT + (step as f64 + 0.5) / self.steps.len().max(1) as f64 * (WIDTH - LEFT - RIGHT)
    }

    /// A line down the plot ahead of each step that stands apart.
    fn borders(&self, out: &mut dyn Write) -> io::Result<()> {
        let apart = (1..self.steps.len()).filter(|step| self.is_apart(step - 1, *step));
        for step in apart {
            let (x, bottom) = (f64::midpoint(self.x(step - 1), self.x(step)), TOP + PLOT);
            writeln!(out, "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>")?;
        }
        Ok(())
    }

    /// Whether no line goes from one step to a later one.
    fn is_apart(&self, from: usize, to: usize) -> bool {
        self.steps.get(from + 1..=to).is_some_and(|steps| steps.iter().any(|step| step.is_apart))
    }

    fn names_of_steps(&self, is_angled: bool, height: f64, out: &mut dyn Write) -> io::Result<()> {
        for (step, Step { label, .. }) in self.steps.iter().enumerate().filter(|(_, step)| !step.label.is_empty()) {
            let (x, y) = (self.x(step), TOP + PLOT + 18.0);
            let how = if is_angled {
                format!("text-anchor=\"end\" transform=\"rotate(-32 {x:.1} {y:.1})\"")
            } else {
                "text-anchor=\"middle\"".to_owned()
            };
            let shown: String = label.chars().take(LONG).collect();
            writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" {how}>{}</text>", Text(shown))?;
        }
        let (x, y) = (WIDTH - RIGHT, height - 8.0);
        writeln!(out, "<text class=\"title\" x=\"{x}\" y=\"{y}\" text-anchor=\"end\">{}</text>", Text(self.of_steps))
    }

    fn line(&self, line: &Line, y: &dyn Fn(f64) -> f64, out: &mut dyn Write) -> io::Result<()> {
        let (colour, dash) = (line.colour % COLOURS, dash(line.colour));
        let at = |letter: char, point: &Point| format!("{letter}{:.1} {:.1}", self.x(point.step), y(point.typical));
        let first = line.points.iter().take(1).map(|point| at('M', point));
        let pairs = line.points.iter().zip(line.points.iter().skip(1));
        let others = pairs.map(|(from, to)| at(if self.is_apart(from.step, to.step) { 'M' } else { 'L' }, to));
        let path: String = first.chain(others).collect();
        writeln!(out, "<path class=\"line s{colour} {dash}\" d=\"{path}\"/>")?;
        for point in &line.points {
            let step = self.steps.get(point.step).map_or("", |step| step.name.as_str());
            for value in &point.values {
                writeln!(
                    out,
                    "<circle class=\"f{colour}\" r=\"3.5\" cx=\"{:.1}\" cy=\"{:.1}\"><title>{}, {}: {}</title></circle>",
                    self.x(point.step),
                    y(*value),
                    Text(&line.name),
                    Text(step),
                    Text((self.shown)(*value))
                )?;
            }
        }
        Ok(())
    }
}

/// When there are more lines than colours, the later ones are dashed.
fn dash(colour: usize) -> String {
    format!("dash{}", (colour / COLOURS).min(4))
}

/// Round values from 0 to `top`: for bytes, the powers of two and their multiples.
fn grid(top: f64, is_bytes: bool) -> Vec<f64> {
    let least = top / GRID_LINES;
    let decade = 10_f64.powf(least.log10().floor());
    let step = if is_bytes {
        2_f64.powf(least.log2().ceil())
    } else {
        [1.0, 2.0, 5.0].map(|by| by * decade).into_iter().find(|step| *step >= least).unwrap_or(10.0 * decade)
    };
    (0..=6).map(|nth| f64::from(nth) * step).take_while(|value| *value <= top).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_has_round_values_up_to_the_top_and_few_of_them() {
        assert_eq!(grid(1060.0, false), [0.0, 500.0, 1000.0]);
        assert_eq!(grid(4.9, false), [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(grid(600.0 * 1024.0, true), [0.0, 128.0, 256.0, 384.0, 512.0].map(|kib| kib * 1024.0));
        for top in [0.001, 1.0, 7.0, 123.0, 9.99e9] {
            for is_bytes in [false, true] {
                let lines = grid(top, is_bytes);
                assert!((2..=6).contains(&lines.len()) && lines.iter().all(|value| *value <= top), "{top}: {lines:?}");
            }
        }
    }
}
