//! Curves as SVG: means over seeds as lines, what seeds differ by as bands.
//!
//! Colours are classes (`c0` to `c7` for lines, bands of the same class), so that a page can choose them for light, dark and print.
//! More than eight lines are told apart by dashes.

use std::fmt::Write as _;

use super::table::html;

/// Points of a curve, at most.
const POINTS: usize = 200;
/// Colours there are.
pub const COLOURS: usize = 8;

/// A curve with a band around it.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// What it is of.
    pub name: String,
    /// Place, mean, and the ends of the band.
    pub points: Vec<[f64; 4]>,
}

impl Curve {
    /// Means and deviations over seeds of what each seed has at every epoch, epochs in groups if there are many.
    pub fn over_seeds(name: &str, seeds: &[Vec<(f64, f64)>]) -> Curve {
        let last = seeds.iter().flatten().map(|point| point.0).fold(0.0, f64::max);
        let width = ((last + 1.0) / POINTS as f64).ceil().max(1.0);
        let mut groups: Vec<Vec<Vec<f64>>> = Vec::new();
        for (seed, points) in seeds.iter().enumerate() {
            for &(place, value) in points.iter().filter(|(_, value)| value.is_finite()) {
                let group = (place / width) as usize;
                groups.resize_with(groups.len().max(group + 1), Vec::new);
                groups[group].resize_with(seeds.len().max(seed + 1), Vec::new);
                groups[group][seed].push(value);
            }
        }
        let point = |(group, of_seeds): (usize, &Vec<Vec<f64>>)| {
            let mean = |values: &Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
            let means: Vec<f64> =
                of_seeds.iter().filter(|values| !values.is_empty()).map(mean).collect();
            let (middle, deviation) = super::statistics::moments(&means);
            let deviation = deviation.unwrap_or(0.0);
            let place = ((group as f64 + 0.5) * width - 0.5).min(last);
            (!means.is_empty()).then_some([place, middle, middle - deviation, middle + deviation])
        };
        Curve { name: name.into(), points: groups.iter().enumerate().filter_map(point).collect() }
    }
}

/// What the axes of a chart are.
#[derive(Clone, Copy, Debug)]
pub struct Axes<'a> {
    /// What goes to the right.
    pub x: &'a str,
    /// What goes up.
    pub y: &'a str,
    /// From where to where that goes; what the curves need, if not given.
    pub range: Option<[f64; 2]>,
}

/// A chart of curves, `width` × `height` at a text size of 13.
pub fn svg(curves: &[Curve], axes: Axes, width: f64, height: f64) -> String {
    let [left, right, top, bottom] = [58.0, 20.0, 12.0, 40.0];
    let (x_end, [low, high]) = (x_end(curves), axes.range.unwrap_or_else(|| y_range(curves)));
    let x = |place: f64| left + place / x_end * (width - left - right);
    let y = |value: f64| top + (high - value) / (high - low) * (height - top - bottom);
    let mut text = format!(
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{} over {}\">\n",
        html(axes.y),
        html(axes.x)
    );
    let ticks = ticks(low, high, (height / 55.0) as usize);
    let digits = digits(&ticks);
    for &tick in &ticks {
        let at = y(tick);
        let _ = writeln!(
            text,
            "<path class=\"grid\" d=\"M{left} {at:.1}H{:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" class=\"e\">{tick:.digits$}</text>",
            width - right,
            left - 6.0,
            at + 4.5,
        );
    }
    let ticks = self::ticks(0.0, x_end, (width / 90.0) as usize);
    let digits = self::digits(&ticks);
    for tick in ticks {
        let _ = writeln!(
            text,
            "<text x=\"{:.1}\" y=\"{:.1}\" class=\"m\">{tick:.digits$}</text>",
            x(tick),
            height - bottom + 18.0
        );
    }
    let middle = f64::midpoint(top, height - bottom);
    let _ = writeln!(
        text,
        "<text x=\"{:.1}\" y=\"{:.1}\" class=\"m\">{}</text>\n<text transform=\"translate(13 {middle:.1}) rotate(-90)\" class=\"m\">{}</text>",
        f64::midpoint(left, width - right),
        height - 5.0,
        html(axes.x),
        html(axes.y)
    );
    let (wide, tall) = (width - left - right, height - top - bottom);
    let _ = writeln!(
        text,
        "<svg x=\"{left}\" y=\"{top}\" width=\"{wide}\" height=\"{tall}\" viewBox=\"{left} {top} {wide} {tall}\">"
    );
    // The frame cuts off what is beyond it, but not every program can draw from infinity.
    let y = |value: f64| y(value.clamp(2.0 * low - high, 2.0 * high - low));
    for (number, curve) in curves.iter().enumerate() {
        let (colour, dash) = (number % COLOURS, if number < COLOURS { "" } else { " d" });
        let there = curve.points.iter().map(|point| (point[0], point[3]));
        let back = curve.points.iter().rev().map(|point| (point[0], point[2]));
        let place = |(at, value): (f64, f64)| format!("{:.1} {:.1}", x(at), y(value));
        if curve.points.iter().any(|point| point[3] > point[2]) {
            let outline: Vec<String> = there.chain(back).map(place).collect();
            let _ = writeln!(text, "<path class=\"b c{colour}\" d=\"M{}Z\"/>", outline.join("L"));
        }
        let line: Vec<String> =
            curve.points.iter().map(|point| place((point[0], point[1]))).collect();
        if !line.is_empty() {
            let name = html(&curve.name);
            let _ = writeln!(
                text,
                "<path class=\"l c{colour}{dash}\" d=\"M{}\"><title>{name}</title></path>",
                line.join("L")
            );
        }
    }
    text + "</svg>\n</svg>\n"
}

/// Charts beside and below each other, `columns` in a row, with one legend: a picture by itself, which is the same in light and
/// dark.
pub fn grid(charts: &[(Axes, Vec<Curve>)], columns: usize) -> String {
    const SIZE: [f64; 2] = [400.0, 260.0];
    let names = charts.first().map_or(&[][..], |(_, curves)| curves);
    let legend = 24.0 * names.len().div_ceil(3) as f64 + 12.0;
    let wide = SIZE[0] * columns as f64;
    let tall = SIZE[1] * charts.len().div_ceil(columns) as f64 + legend;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {wide} {tall}\" width=\"{wide}\" height=\"{tall}\">\n<style>\n{}</style>\n\
         <rect width=\"{wide}\" height=\"{tall}\" fill=\"#fff\"/>\n",
        include_str!("picture.css")
    );
    for (number, (axes, curves)) in charts.iter().enumerate() {
        let place = [number % columns, number / columns];
        let _ = writeln!(
            text,
            "<g transform=\"translate({} {})\">",
            place[0] as f64 * SIZE[0],
            place[1] as f64 * SIZE[1]
        );
        let size = format!("width=\"{}\" height=\"{}\" ", SIZE[0], SIZE[1]);
        text += &svg(curves, *axes, SIZE[0], SIZE[1]).replacen("<svg ", &format!("<svg {size}"), 1);
        text += "</g>\n";
    }
    for (number, curve) in names.iter().enumerate() {
        let [x, y] = [
            20.0 + wide / 3.0 * (number % 3) as f64,
            tall - legend + 20.0 + 24.0 * (number / 3) as f64,
        ];
        let _ = writeln!(
            text,
            "<path class=\"l c{}{}\" d=\"M{x:.1} {y:.1}h24\"/><text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            number % COLOURS,
            if number < COLOURS { "" } else { " d" },
            x + 32.0,
            y + 4.5,
            html(&curve.name)
        );
    }
    text + "</svg>\n"
}

fn x_end(curves: &[Curve]) -> f64 {
    let last = curves.iter().filter_map(|curve| curve.points.last()).map(|point| point[0]);
    let last = last.fold(0.0, f64::max);
    if last > 0.0 { last } else { 1.0 }
}

/// From the least to the most that is seen once the first tenth of the epochs is over: beginnings would flatten the rest.
fn y_range(curves: &[Curve]) -> [f64; 2] {
    let settled = x_end(curves) / 10.0;
    let all = || curves.iter().flat_map(|curve| &curve.points);
    let few = all().filter(|point| point[0] >= settled).count() < 2;
    let seen = || {
        all()
            .filter(|point| few || point[0] >= settled)
            .flat_map(|point| [point[1], point[2], point[3]])
    };
    let (low, high) =
        seen().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), y| (low.min(y), high.max(y)));
    if !low.is_finite() || !high.is_finite() {
        return [0.0, 1.0];
    }
    let margin = ((high - low) * 0.05).max(high.abs() * 1e-6).max(1e-9);
    [low - margin, high + margin]
}

/// Round numbers between two, some `count` of them.
fn ticks(low: f64, high: f64, count: usize) -> Vec<f64> {
    let raw = (high - low) / count.max(2) as f64;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let step = step.into_iter().find(|step| *step >= raw * 0.999).unwrap_or(power * 10.0);
    let first = (low / step).ceil() as i64;
    (first..)
        .map(|i| i as f64 * step)
        .take_while(|tick| *tick <= high + step * 1e-9)
        .take(100)
        .collect()
}

/// Digits after the point that ticks need.
fn digits(ticks: &[f64]) -> usize {
    let step = ticks.windows(2).map(|pair| pair[1] - pair[0]).next().unwrap_or(1.0);
    (-(step * 1.001).log10().floor()).clamp(0.0, 9.0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_are_means_over_seeds() {
        let seeds = [vec![(0.0, 1.0), (1.0, 2.0)], vec![(0.0, 3.0), (1.0, f64::NAN)]];
        let curve = Curve::over_seeds("a", &seeds);
        let half = 2f64.sqrt();
        assert_eq!(curve.points, [[0.0, 2.0, 2.0 - half, 2.0 + half], [1.0, 2.0, 2.0, 2.0]]);
        let long: Vec<(f64, f64)> = (0..2000).map(|i| (f64::from(i), 1.0)).collect();
        let curve = Curve::over_seeds("a", &[long]);
        assert_eq!(curve.points.len(), 200);
        assert!(
            (curve.points[0][0] - 4.5).abs() < 1e-9
                && curve.points.iter().all(|point| point[1] == 1.0)
        );
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(0.0, 100.0, 5), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        let found = ticks(0.13, 0.19, 4);
        assert_eq!(
            found.iter().map(|tick| format!("{tick:.2}")).collect::<Vec<_>>(),
            ["0.14", "0.16", "0.18"]
        );
        assert_eq!(digits(&found), 2);
        assert_eq!(digits(&[0.0, 500.0]), 0);
    }

    #[test]
    fn names_are_escaped_and_odd_curves_are_drawn() {
        let curve = |points: Vec<[f64; 4]>| Curve { name: "</title><script>".into(), points };
        for points in [
            vec![],
            vec![[0.0, 1.0, 1.0, 1.0]],
            vec![[0.0, 1e30, 0.0, 1e30], [5.0, -1e30, -1e30, 0.0]],
        ] {
            let axes = Axes { x: "epoch", y: "\"val\"", range: None };
            let text = svg(&[curve(points)], axes, 600.0, 300.0);
            assert!(!text.contains("<script>") && text.contains("&quot;val&quot;"));
            assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        }
    }
}
