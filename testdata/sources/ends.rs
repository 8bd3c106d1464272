// A panic with panic=abort, in a thread with a name.
#[inline(never)]
fn settle(n: usize) -> u32 {
    let prices = vec![1u32, 2, 3];
    prices[n + 4]
}
fn main() {
    let settler = std::thread::Builder::new().name("settler".into());
    settler.spawn(|| println!("{}", settle(std::env::args().count()))).unwrap().join().unwrap();
}
