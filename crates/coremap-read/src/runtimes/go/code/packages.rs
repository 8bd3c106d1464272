//! Packages: which functions are the program's own.

/// Package path of a function: `net/http` of `net/http.(*conn).serve`. In names, dots of the last element are escaped.
pub(in crate::runtimes::go) fn package_of(function: &str) -> &str {
    // A type argument may contain slashes and dots.
    let plain = function.split('[').next().unwrap_or(function);
    let last = plain.rfind('/').map_or(0, |at| at + 1);
    let dot = plain.get(last..).and_then(|rest| rest.find('.')).map_or(plain.len(), |at| last + at);
    plain.get(..dot).unwrap_or(plain)
}

/// Whether a function is the program's or of a library that it ships, as opposed to Go's own library. Import paths of
/// the standard library have no dot in their first element. `module`: path of the program's own module.
pub(in crate::runtimes::go) fn is_program(function: &str, module: Option<&str>) -> bool {
    let package = package_of(function);
    let is_own =
        |module: &str| package == module || package.strip_prefix(module).is_some_and(|rest| rest.starts_with('/'));
    if package == "main" || module.is_some_and(is_own) {
        return true;
    }
    let first = package.split('/').next().unwrap_or(package);
    // Packages of the standard library's own dependencies.
    first != "vendor" && first.contains('.') && !package.starts_with("type:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_functions() {
        let all = [
            ("net/http.(*conn).serve", "net/http"),
            ("main.main.func5", "main"),
            ("go.etcd.io/etcd/server/v3/etcdserver.(*EtcdServer).run", "go.etcd.io/etcd/server/v3/etcdserver"),
            ("gopkg.in/yaml%2ev3.Unmarshal", "gopkg.in/yaml%2ev3"),
            ("slices.SortFunc[go.shape.[]example.com/a.T,go.shape.struct{}]", "slices"),
            ("runtime.gopark", "runtime"),
        ];
        for (function, package) in all {
            assert_eq!(package_of(function), package);
        }
    }

    #[test]
    fn the_programs_own_functions() {
        let own = |function| is_program(function, Some("shop"));
        assert!(own("main.main") && own("shop.Run") && own("shop/orders.(*Cart).Add") && own("github.com/x/y.F"));
        assert!(!own("shopping.Run") && !own("net/http.(*conn).serve") && !own("vendor/golang.org/x/net/idna.F"));
        assert!(!is_program("type:.eq.main.T", None));
    }
}
