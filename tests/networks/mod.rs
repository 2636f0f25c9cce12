//! The pictures in docs are the example's output, and the counts and quotes of the text are true.

#[path = "../../examples/networks.rs"]
#[allow(dead_code)] // its `main`
mod example;
mod story;

use example::Drawing;

#[test]
fn the_pictures_are_drawn_by_the_example() {
    for (file, svg, name, lanes) in [
        ("network-kogge-stone.svg", include_str!("../../docs/network-kogge-stone.svg"), "kogge-stone", 32),
        ("network-brent-kung.svg", include_str!("../../docs/network-brent-kung.svg"), "brent-kung", 32),
        ("network-sklansky.svg", include_str!("../../docs/network-sklansky.svg"), "sklansky", 32),
        ("network-warp-shuffles.svg", include_str!("../../docs/network-warp-shuffles.svg"), "warp-shuffles", 4),
    ] {
        let drawn = Drawing::new(name, 16, lanes).unwrap().svg();
        assert!(
            drawn == svg,
            "draw docs/{file} again: cargo run --example networks -- {name} 16 --lanes {lanes} --svg docs/{file}"
        );
    }
}

#[test]
fn a_drawing_shows_every_combination() {
    for (name, width, lanes) in
        [("kogge-stone", 13, 32), ("brent-kung", 16, 32), ("sklansky", 31, 32), ("warp-shuffles", 21, 4)]
    {
        let drawing = Drawing::new(name, width, lanes).unwrap();
        let mut applications = 0;
        match name {
            "kogge-stone" => parascan::networks::kogge_stone(width, |_, _, _| applications += 1),
            "brent-kung" => parascan::networks::brent_kung(width, |_, _, _| applications += 1),
            "sklansky" => parascan::networks::sklansky(width, |_, _, _| applications += 1),
            _ => parascan::networks::warp_shuffles(width, lanes, |_, _, _| applications += 1),
        }
        assert_eq!(drawing.svg().matches("<circle").count(), applications, "{name}");
        assert_eq!(
            drawing.text().lines().skip(2).map(|line| line.matches('*').count()).sum::<usize>(),
            applications,
            "{name}"
        );
        assert!(drawing.text().lines().next().unwrap().ends_with(&format!("{applications} applications")), "{name}");
    }
}
