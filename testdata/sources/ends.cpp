// A C++ exception that nobody catches, in a thread that is not the main one.
#include <stdexcept>
#include <string>
#include <thread>
namespace till {
struct PriceMissing : std::runtime_error {
    explicit PriceMissing(int article) : std::runtime_error("no price for article " + std::to_string(article)) {}
};
}
__attribute__((noinline)) static void ring_up(int article) { throw till::PriceMissing(article); }
int main() {
    std::thread t([] { ring_up(815); });
    t.join();
}
