//! Draws the charts of the documentation as plain SVG: horizontal bars and lines, both on a logarithmic scale. Pure:
//! returns text. Every chart has a background of its own, so it is readable on light and dark pages, a title and a
//! description for screen readers, and uses only fonts that every machine has.

use std::fmt::Write as _;

const WIDTH: f64 = 760.0;
const MARGIN: f64 = 24.0;
const ROW: f64 = 22.0;
const BACKGROUND: &str = "#f6f8fa";
const INK: &str = "#1f2328";
const MUTED: &str = "#59636e";
const GRID: &str = "#d1d9e0";
/// The colour of Milepost.
const OURS: &str = "#0969da";
/// The colour of further lines of Milepost.
const OURS_TOO: &str = "#54aeff";
/// The colour of bars of other tools, and of the floor.
const OTHER: &str = "#8c959f";
const FLOOR: &str = "#c8d0d8";
/// The colours of lines of other tools, which differ in brightness too.
const LINES: [&str; 7] = ["#9a3412", "#1a7f37", "#8250df", "#bf8700", "#cf222e", "#57606a", "#0e7490"];

/// Whose value a bar or a line shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    Milepost,
    Peer,
    Floor,
}

/// A bar with its name and the text of its value.
pub struct Bar {
    pub name: String,
    pub value: f64,
    pub label: String,
    pub owner: Owner,
}

/// Bars under a common heading. Every group has a scale of its own.
pub struct Group {
    pub heading: String,
    pub bars: Vec<Bar>,
}

/// A line with its points, in the order of x.
pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
    pub owner: Owner,
}

/// A plot with a heading.
pub struct Panel {
    pub heading: String,
    pub lines: Vec<Line>,
}

/// Draws groups of horizontal bars.
pub fn bars(title: &str, description: &str, groups: &[Group]) -> String {
    const NAMES: f64 = 250.0;
    const LABELS: f64 = 90.0;
    let rows: usize = groups.iter().map(|group| group.bars.len()).sum();
    let height = 62.0 + rows as f64 * ROW + groups.len() as f64 * 44.0;
    let mut svg = Svg::new(title, description, height);
    let mut y = 62.0;
    for group in groups {
        y += 20.0;
        svg.text(MARGIN, y, "start", INK, "bold", &group.heading);
        y += 10.0;
        let scale =
            Scale::around(group.bars.iter().map(|bar| bar.value), WIDTH - MARGIN * 2.0 - NAMES - LABELS);
        for bar in &group.bars {
            let colour = match bar.owner {
                Owner::Milepost => OURS,
                Owner::Peer => OTHER,
                Owner::Floor => FLOOR,
            };
            let weight = if bar.owner == Owner::Milepost { "bold" } else { "normal" };
            let length = scale.at(bar.value).max(2.0);
            let x = MARGIN + NAMES;
            svg.text(x - 8.0, y + 15.0, "end", INK, weight, &bar.name);
            svg.rectangle(x, y + 3.0, length, ROW - 6.0, colour);
            svg.text(x + length + 6.0, y + 15.0, "start", INK, weight, &bar.label);
            y += ROW;
        }
        y += 14.0;
    }
    svg.finish()
}

/// Draws plots side by side, with one legend. Both axes are logarithmic. `y_label` formats a value of the y axis.
pub fn lines(title: &str, description: &str, panels: &[Panel], y_label: impl Fn(f64) -> String) -> String {
    const PLOT: f64 = 230.0;
    const AXIS: f64 = 48.0;
    let names: Vec<(&str, Owner)> = panels
        .first()
        .map_or_else(Vec::new, |p| p.lines.iter().map(|l| (l.name.as_str(), l.owner)).collect());
    let legend_rows = names.len().div_ceil(3) as f64;
    let height = 62.0 + 34.0 + PLOT + 40.0 + legend_rows * 20.0;
    let mut svg = Svg::new(title, description, height);
    let slot = (WIDTH - MARGIN * 2.0) / panels.len().max(1) as f64;
    for (number, panel) in panels.iter().enumerate() {
        let (left, top) = (MARGIN + slot * number as f64 + AXIS, 92.0);
        let plot_width = slot - AXIS - 12.0;
        svg.text(left, top - 10.0, "start", INK, "bold", &panel.heading);
        let points = || panel.lines.iter().flat_map(|line| &line.points);
        let x = Scale::of_powers(points().map(|p| p.0), plot_width);
        let y = Scale::of_powers(points().map(|p| p.1), PLOT);
        for tick in y.ticks() {
            let at = top + PLOT - y.at(tick);
            svg.line(left, at, left + plot_width, at);
            svg.text(left - 6.0, at + 4.0, "end", MUTED, "normal", &y_label(tick));
        }
        for tick in x.ticks() {
            let at = left + x.at(tick);
            svg.text(at, top + PLOT + 18.0, "middle", MUTED, "normal", &short_count(tick));
        }
        for (n, line) in panel.lines.iter().enumerate() {
            let place = |&(px, py): &(f64, f64)| (left + x.at(px), top + PLOT - y.at(py));
            let path: Vec<(f64, f64)> = line.points.iter().map(place).collect();
            svg.path(&path, line_colour(&names, n), line.owner);
        }
    }
    let top = 92.0 + PLOT + 44.0;
    for (n, (name, owner)) in names.iter().enumerate() {
        let (column, row) = ((n % 3) as f64, (n / 3) as f64);
        let (x, y) = (MARGIN + column * 240.0, top + row * 20.0);
        svg.path(&[(x, y), (x + 22.0, y)], line_colour(&names, n), *owner);
        svg.text(x + 30.0, y + 4.0, "start", INK, "normal", name);
    }
    svg.finish()
}

/// The colour of a line. The first line of Milepost has the colour of its bars.
fn line_colour(lines: &[(&str, Owner)], number: usize) -> &'static str {
    let is_first = |owner| lines[..number].iter().all(|(_, other)| *other != owner);
    match lines[number].1 {
        Owner::Milepost if is_first(Owner::Milepost) => OURS,
        Owner::Milepost => OURS_TOO,
        Owner::Peer => LINES[number % LINES.len()],
        Owner::Floor => OTHER,
    }
}

/// `1,000` as `1k`.
fn short_count(value: f64) -> String {
    if value >= 1000.0 { format!("{}k", value / 1000.0) } else { format!("{value}") }
}

/// A logarithmic scale from a power of ten to a length.
struct Scale {
    low: f64,
    high: f64,
    length: f64,
}

impl Scale {
    /// A scale that ends at the largest value. The smallest one keeps a visible length.
    fn around(values: impl Iterator<Item = f64>, length: f64) -> Self {
        let (low, high) = Self::limits(values);
        let low = (low - 0.05).floor();
        Self { low, high: high.max(low + 1.0), length }
    }

    /// A scale from the power of ten below all values to the one above.
    fn of_powers(values: impl Iterator<Item = f64>, length: f64) -> Self {
        let (low, high) = Self::limits(values);
        // Not one more power for a value that is one, or just above.
        let (low, high) = (low.floor(), (high - 0.02).ceil());
        Self { low, high: high.max(low + 1.0), length }
    }

    /// The logarithms of the smallest and of the largest value.
    fn limits(values: impl Iterator<Item = f64>) -> (f64, f64) {
        let logs = values.filter(|v| *v > 0.0).map(f64::log10);
        let range = logs.fold(None, |range: Option<(f64, f64)>, log| {
            Some(range.map_or((log, log), |(low, high)| (low.min(log), high.max(log))))
        });
        range.unwrap_or((0.0, 1.0))
    }

    fn at(&self, value: f64) -> f64 {
        if value <= 0.0 {
            return 0.0;
        }
        ((value.log10() - self.low) / (self.high - self.low)).clamp(0.0, 1.0) * self.length
    }

    /// The powers of ten on the scale.
    fn ticks(&self) -> Vec<f64> {
        let (low, high) = (self.low.ceil() as i32, (self.high + 1e-9).floor() as i32);
        (low..=high).map(|power| 10_f64.powi(power)).collect()
    }
}

/// The text of an SVG file.
struct Svg(String);

impl Svg {
    fn new(title: &str, description: &str, height: f64) -> Self {
        let mut svg = Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" role=\"img\" aria-labelledby=\"title desc\" font-family=\"sans-serif\" \
             font-size=\"12\">\n<title id=\"title\">{}</title>\n<desc id=\"desc\">{}</desc>\n",
            escape(title),
            escape(description)
        ));
        let _ = writeln!(
            svg.0,
            "<rect width=\"{WIDTH}\" height=\"{height}\" rx=\"8\" fill=\"{BACKGROUND}\" stroke=\"{GRID}\"/>"
        );
        let _ = writeln!(
            svg.0,
            "<text x=\"{MARGIN}\" y=\"32\" font-size=\"16\" font-weight=\"bold\" fill=\"{INK}\">{}</text>",
            escape(title)
        );
        svg.text(MARGIN, 51.0, "start", MUTED, "normal", description);
        svg
    }

    fn text(&mut self, x: f64, y: f64, anchor: &str, colour: &str, weight: &str, text: &str) {
        let anchor = if anchor == "start" { String::new() } else { format!(" text-anchor=\"{anchor}\"") };
        let weight = if weight == "normal" { String::new() } else { format!(" font-weight=\"{weight}\"") };
        let text = escape(text);
        let _ = writeln!(
            self.0,
            "<text x=\"{x:.1}\" y=\"{y:.1}\"{anchor}{weight} fill=\"{colour}\">{text}</text>"
        );
    }

    fn rectangle(&mut self, x: f64, y: f64, width: f64, height: f64, colour: &str) {
        let _ = writeln!(
            self.0,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"2\" fill=\"{colour}\"/>"
        );
    }

    /// A line of the grid.
    fn line(&mut self, x1: f64, y1: f64, x2: f64, y2: f64) {
        let _ = writeln!(
            self.0,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{GRID}\"/>"
        );
    }

    fn path(&mut self, points: &[(f64, f64)], colour: &str, owner: Owner) {
        let at: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let width = if owner == Owner::Milepost { 3 } else { 2 };
        let dashes = if owner == Owner::Floor { " stroke-dasharray=\"4 4\"" } else { "" };
        let _ = writeln!(
            self.0,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"{dashes}/>",
            at.join(" ")
        );
        if points.len() > 2 {
            for (x, y) in points {
                let _ =
                    writeln!(self.0, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{width}\" fill=\"{colour}\"/>");
            }
        }
    }

    fn finish(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(name: &str, value: f64, owner: Owner) -> Bar {
        Bar { name: name.to_owned(), value, label: format!("{value} ms"), owner }
    }

    #[test]
    fn ten_times_the_value_is_one_step_of_the_scale() {
        let scale = Scale::around([1.0, 1000.0].into_iter(), 400.0);
        let steps: Vec<f64> = scale.ticks().iter().map(|tick| scale.at(*tick)).collect();
        assert_eq!(scale.ticks(), [0.1, 1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(steps, [0.0, 100.0, 200.0, 300.0, 400.0]);
    }

    #[test]
    fn values_outside_the_scale_stay_inside_the_chart() {
        let scale = Scale::around([5.0].into_iter(), 100.0);
        assert_eq!(scale.at(0.0), 0.0);
        assert_eq!(scale.at(1e9), 100.0);
        assert!(Scale::around(std::iter::empty(), 100.0).at(3.0).is_finite());
    }

    #[test]
    fn bars_have_a_title_a_description_and_escaped_names() {
        let group = Group {
            heading: "save".to_owned(),
            bars: vec![bar("a < b & c", 5.0, Owner::Peer), bar("Milepost", 1.0, Owner::Milepost)],
        };
        let svg = bars("Whole processes", "Shorter is better", &[group]);
        assert!(svg.contains("<title id=\"title\">Whole processes</title>"));
        assert!(svg.contains("<desc id=\"desc\">Shorter is better</desc>"));
        assert!(svg.contains("a &lt; b &amp; c") && !svg.contains("a < b"));
        assert_eq!(svg.matches(OURS).count(), 1);
        assert!(svg.ends_with("</svg>\n"));
    }

    #[test]
    fn each_panel_draws_each_line_and_the_legend_names_it_once() {
        let line = |name: &str, owner| Line {
            name: name.to_owned(),
            points: vec![(1.0, 2.0), (1000.0, 2.0), (100_000.0, 900.0)],
            owner,
        };
        let panel = |heading: &str| Panel {
            heading: heading.to_owned(),
            lines: vec![line("Milepost", Owner::Milepost), line("JSON files", Owner::Peer)],
        };
        let svg = lines("Growth", "Time", &[panel("save"), panel("list")], |v| format!("{v} ms"));
        assert_eq!(svg.matches(">JSON files<").count(), 1);
        assert_eq!(svg.matches("<polyline").count(), 2 * 2 + 2);
        assert!(svg.contains(">100k<") && svg.contains(">100 ms<"));
        assert!(svg.len() < 20_000);
    }
}
