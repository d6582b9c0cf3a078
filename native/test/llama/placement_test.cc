// Settings of GPUs and experts, translated for a machine with invented devices.
#include "engine/llama/placement.h"

#include <cmath>
#include <deque>
#include <regex>

#include "ggml-backend-impl.h"
#include "test.h"

namespace svc {
namespace {

struct Card {
  std::string name;
  const char* id = nullptr;
  enum ggml_backend_dev_type type = GGML_BACKEND_DEVICE_TYPE_GPU;
};

const Card& CardOf(ggml_backend_dev_t device) { return *static_cast<const Card*>(device->context); }

// The devices of a machine: they have a type and a name, and compute nothing.
class Machine {
 public:
  explicit Machine(std::initializer_list<Card> cards) : cards_(cards) {
    for (Card& card : cards_) {
      ggml_backend_device& device = devices_.emplace_back();
      device.context = &card;
      device.iface.get_name = [](ggml_backend_dev_t each) { return CardOf(each).name.c_str(); };
      device.iface.get_type = [](ggml_backend_dev_t each) { return CardOf(each).type; };
      device.iface.get_props = [](ggml_backend_dev_t each, ggml_backend_dev_props* props) {
        props->device_id = CardOf(each).id;
      };
      all_.push_back(&device);
    }
  }

  std::vector<ggml_backend_dev_t> gpus() const { return GpusAmong(all_); }
  ggml_backend_dev_t at(std::size_t index) { return &devices_[index]; }

 private:
  std::deque<Card> cards_;
  std::deque<ggml_backend_device> devices_;
  std::vector<ggml_backend_dev_t> all_;
};

Machine TwoCards() {
  return Machine{{"CPU", nullptr, GGML_BACKEND_DEVICE_TYPE_CPU}, {"Card0"}, {"Card1"}};
}

// The devices of `params`, without the null at the end.
std::vector<ggml_backend_dev_t> DevicesOf(const llama_model_params& params) {
  std::vector<ggml_backend_dev_t> devices;
  for (ggml_backend_dev_t* each = params.devices; *each != nullptr; ++each) {
    devices.push_back(*each);
  }
  return devices;
}

std::string RefusalOf(const LoadOptions& options, const Machine& machine) {
  const Result<Placement> placement = Placement::Of(options, machine.gpus());
  EXPECT_EQ(placement.status().code(), StatusCode::kConfigInvalid);
  return placement.status().message();
}

TEST(EachCardIsOneGpuAndIntegratedOnesCountIfThereIsNoOther) {
  constexpr auto kIntegrated = GGML_BACKEND_DEVICE_TYPE_IGPU;
  const Machine twice{{"CUDA0", "0000:01:00.0"},
                      {"CUDA1", "0000:02:00.0"},
                      {"Vulkan0", "0000:01:00.0"},
                      {"Vulkan2", nullptr, kIntegrated}};
  EXPECT_EQ(NamesOf(twice.gpus()), "CUDA0, CUDA1");
  const Machine integrated{{"CPU", nullptr, GGML_BACKEND_DEVICE_TYPE_CPU},
                           {"BLAS", nullptr, GGML_BACKEND_DEVICE_TYPE_ACCEL},
                           {"Vulkan0", nullptr, kIntegrated}};
  EXPECT_EQ(NamesOf(integrated.gpus()), "Vulkan0");
}

TEST(WithoutSettingsLibllamaChooses) {
  const Machine machine = TwoCards();
  Result<Placement> placement = Placement::Of({.gpu_layers = 7}, machine.gpus());
  REQUIRE(placement.ok());
  llama_model_params params = llama_model_default_params();
  placement.value().ApplyTo(&params);
  EXPECT_EQ(params.n_gpu_layers, 7);
  EXPECT(params.devices == nullptr);
  EXPECT(params.tensor_split == nullptr);
  EXPECT(params.tensor_buft_overrides == nullptr);
  EXPECT(placement.value().first_gpu() == nullptr);
}

TEST(TheMainGpuIsTheOnlyDevice) {
  Machine machine = TwoCards();
  for (const char* wanted : {"Card1", "1"}) {
    Result<Placement> placement = Placement::Of({.main_gpu = wanted}, machine.gpus());
    REQUIRE(placement.ok());
    llama_model_params params = llama_model_default_params();
    placement.value().ApplyTo(&params);
    EXPECT(DevicesOf(params) == std::vector{machine.at(2)});
    EXPECT(params.tensor_split == nullptr);
    EXPECT(placement.value().first_gpu() == machine.at(2));
  }
  EXPECT_EQ(RefusalOf({.main_gpu = "2"}, machine),
            "main_gpu is 2, and this machine has 2 GPUs: Card0, Card1");
  for (const char* wanted : {"CPU", "card1", "-1", "1x", "99999999999999999999"}) {
    EXPECT(!RefusalOf({.main_gpu = wanted}, machine).empty());
  }
}

TEST(TheSharesAreThoseOfTheGpusThatHaveSome) {
  Machine machine = TwoCards();
  Result<Placement> placement = Placement::Of({.tensor_split = {3, 1}}, machine.gpus());
  REQUIRE(placement.ok());
  llama_model_params params = llama_model_default_params();
  placement.value().ApplyTo(&params);
  EXPECT(DevicesOf(params) == (std::vector{machine.at(1), machine.at(2)}));
  EXPECT_EQ(params.tensor_split[0], 3.0F);
  EXPECT_EQ(params.tensor_split[1], 1.0F);
  for (std::size_t i = 2; i < llama_max_devices(); ++i) EXPECT_EQ(params.tensor_split[i], 0.0F);

  placement = Placement::Of({.tensor_split = {0, 0.5F}}, machine.gpus());
  REQUIRE(placement.ok());
  placement.value().ApplyTo(&params);
  EXPECT(DevicesOf(params) == std::vector{machine.at(2)});
  EXPECT_EQ(params.tensor_split[0], 0.5F);

  EXPECT_EQ(RefusalOf({.tensor_split = {1, 1, 1}}, machine),
            "tensor_split must have a share for each GPU: it has 3, and the GPUs are Card0, Card1");
  for (const std::vector<float>& shares :
       {std::vector{0.0F, 0.0F}, {-1.0F, 2.0F}, {NAN, 1.0F}, {1.0F}}) {
    EXPECT(RefusalOf({.tensor_split = shares}, machine).starts_with("tensor_split must have"));
  }
}

TEST(TheExpertsOfTheFirstLayersStayInHostMemory) {
  const Machine machine = TwoCards();
  constexpr std::uint32_t kLayers = 512;
  for (const std::uint32_t count : {1U, 2U, 9U, 10U, 11U, 37U, 99U, 100U, 101U, 110U, 409U, 512U}) {
    Result<Placement> placement = Placement::Of({.cpu_experts = count}, machine.gpus());
    REQUIRE(placement.ok());
    llama_model_params params = llama_model_default_params();
    placement.value().ApplyTo(&params);
    const llama_model_tensor_buft_override* overrides = params.tensor_buft_overrides;
    REQUIRE(overrides != nullptr && overrides[0].pattern != nullptr);
    EXPECT(overrides[0].buft == ggml_backend_cpu_buffer_type());
    EXPECT(overrides[1].pattern == nullptr);
    const std::regex pattern(overrides[0].pattern);
    std::uint32_t found = 0;
    for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
      const std::string block = "blk." + std::to_string(layer);
      const bool matches = std::regex_search(block + ".ffn_gate_exps.weight", pattern);
      EXPECT_EQ(matches, layer < count);
      found += matches ? 1 : 0;
      EXPECT(!std::regex_search(block + ".ffn_gate_inp.weight", pattern));
      EXPECT(!std::regex_search(block + ".attn_q.weight", pattern));
    }
    EXPECT_EQ(found, count);
  }
}

TEST(NothingIsSetWithoutAGpuOrWithoutLayersOnIt) {
  const Machine none{{"CPU", nullptr, GGML_BACKEND_DEVICE_TYPE_CPU}};
  const LoadOptions wishes{.main_gpu = "Card7", .tensor_split = {1, 2, 3}, .cpu_experts = 4};
  llama_model_params params = llama_model_default_params();
  Result<Placement> placement = Placement::Of(wishes, none.gpus());
  REQUIRE(placement.ok());
  placement.value().ApplyTo(&params);
  EXPECT(params.devices == nullptr);
  EXPECT(params.tensor_split == nullptr);
  EXPECT(params.tensor_buft_overrides == nullptr);

  LoadOptions on_cpu = wishes;
  on_cpu.gpu_layers = 0;
  placement = Placement::Of(on_cpu, TwoCards().gpus());
  REQUIRE(placement.ok());
  placement.value().ApplyTo(&params);
  REQUIRE(params.devices != nullptr);
  EXPECT(DevicesOf(params).empty());  // none is opened
  EXPECT(params.tensor_buft_overrides == nullptr);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
