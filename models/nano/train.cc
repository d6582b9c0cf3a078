// Trains a llama on conversations that batches.py writes, on the cores of one machine.
//
//   python3 batches.py --rows 256 | ./train --bag --layers 1 --hidden 32 --steps 3000 --out bag.f32
//   python3 batches.py --rows 48 | ./train --warm bag.f32 --steps 9000 --out nano.f32
//
// The first call trains only the embedding, in a network that can do no more than add up the words of a
// question: its one layer looks at all tokens alike and passes them on as they are. It takes a minute, and
// what it knows of words is where the second call begins. From random numbers the whole network needs
// ten times as many questions before it knows as much.
//
// The same network, loss and optimiser as train.py, which is for a GPU; there each small operation of
// such a small network costs more than its arithmetic, here the activations of a few hundred tokens
// stay in a core's cache: about five times as many tokens a second on two cores.
//
// Every worker owns a share of a batch's rows, their activations and a gradient of its own; rows are
// concatenated without padding. Forward and backward passes are written out by hand; names follow the
// mathematics (dx is the gradient of the loss with respect to x). Matrices are row-major, a linear
// layer's weight is [outputs][inputs]. The same seed, steps and number of workers give the same file.
//
// Input, little endian, per batch: int32 rows, then per row int32 length, length x int32 token ids,
// length x float32 weights (what predicting this token counts in the loss).
// Output: float32 parameters in the order of `Layout`; export.py reads them.
#include <cblas.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

constexpr int kHead = 32;               // size of an attention head
constexpr int kTokensAPass = 320;       // rows of about so many tokens go through the network together
constexpr float kEpsilon = 1e-5F;       // of the RMS norms
constexpr float kRopeBase = 10000.0F;
constexpr float kBag = 4.0F;            // how strongly a bag's layer adds the tokens up
constexpr float kBeta1 = 0.9F, kBeta2 = 0.98F, kAdamEpsilon = 1e-8F;

struct Options {
  int vocabulary = 2048, width = 192, layers = 6, hidden = 512;
  int steps = 1000, warmup = 300, seed = 1;
  int workers = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  float rate = 2e-3F, decay = 0.1F, dropout = 0.1F;
  bool bag = false;                     // train the embedding alone, on the tokens that weigh most
  bool hold = false;                    // keep the rate instead of lowering it: for a run that another goes on from
  std::string warm;                     // begin with this bag's embedding and its layer
  std::string from, out = "nano.f32";   // from: begin with these parameters
};

// Where each matrix and vector lies in the flat array of parameters.
struct Layout {
  struct Layer {
    size_t attn_norm, qkv, out, ffn_norm, gate_up, down;
  };
  size_t embedding = 0, norm = 0, size = 0;
  std::vector<Layer> layers;
  std::vector<bool> decays;  // by parameter block: matrices decay, norms do not
  std::vector<std::pair<size_t, size_t>> blocks;

  explicit Layout(const Options& o) {
    const auto take = [this](size_t n, bool decay) {
      blocks.emplace_back(size, n);
      decays.push_back(decay);
      size += n;
      return size - n;
    };
    const size_t d = o.width, f = o.hidden;
    embedding = take(o.vocabulary * d, true);
    for (int i = 0; i < o.layers; i++) {
      layers.push_back({take(d, false), take(3 * d * d, true), take(d * d, true), take(d, false), take(2 * f * d, true), take(d * f, true)});
    }
    norm = take(d, false);
  }
};

struct Row {
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

using Batch = std::vector<Row>;

template <typename T>
bool Read(T* to, size_t count) {
  return std::fread(to, sizeof(T), count, stdin) == count;
}

std::optional<Batch> ReadBatch() {
  int32_t rows = 0;
  if (!Read(&rows, 1)) return std::nullopt;
  Batch batch(rows);
  for (Row& row : batch) {
    int32_t length = 0;
    if (!Read(&length, 1)) return std::nullopt;
    row.ids.resize(length);
    row.weights.resize(length);
    if (!Read(row.ids.data(), length) || !Read(row.weights.data(), length)) return std::nullopt;
  }
  return batch;
}

// y[n][o] (+)= x[n][i] w[o][i]^T
void Linear(const float* x, const float* w, float* y, int n, int i, int o, float beta = 0) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, o, i, 1, x, i, w, i, beta, y, o);
}

// dx[n][i] = dy[n][o] w[o][i] and dw[o][i] += dy[n][o]^T x[n][i]
void LinearBack(const float* dy, const float* x, const float* w, float* dx, float* dw, int n, int i, int o, float beta = 0) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, i, o, 1, dy, o, w, i, beta, dx, i);
  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, o, i, n, 1, dy, o, x, i, 1, dw, i);
}

void Norm(const float* x, const float* g, float* y, float* scale, int n, int d) {
  for (int t = 0; t < n; t++, x += d, y += d) {
    float sum = 0;
    for (int j = 0; j < d; j++) sum += x[j] * x[j];
    const float r = scale[t] = 1 / std::sqrt(sum / static_cast<float>(d) + kEpsilon);
    for (int j = 0; j < d; j++) y[j] = x[j] * r * g[j];
  }
}

// dx += the norm's share
void NormBack(const float* dy, const float* x, const float* g, const float* scale, float* dx, float* dg, int n, int d) {
  for (int t = 0; t < n; t++, dy += d, x += d, dx += d) {
    const float r = scale[t];
    float dot = 0;
    for (int j = 0; j < d; j++) {
      dot += dy[j] * g[j] * x[j];
      dg[j] += dy[j] * x[j] * r;
    }
    const float c = dot * r * r * r / static_cast<float>(d);
    for (int j = 0; j < d; j++) dx[j] += dy[j] * g[j] * r - x[j] * c;
  }
}

// Turns the pairs (2i, 2i+1) of each head by the token's position; sign -1 turns back.
void Rope(float* x, int heads, const float* cosines, const float* sines, float sign) {
  for (int h = 0; h < heads; h++, x += kHead) {
    for (int i = 0; i < kHead / 2; i++) {
      const float a = x[2 * i], b = x[2 * i + 1], c = cosines[i], s = sign * sines[i];
      x[2 * i] = a * c - b * s;
      x[2 * i + 1] = a * s + b * c;
    }
  }
}

// Inverted dropout; the mask holds 0 or 1 / (1 - p).
class Dropout {
 public:
  Dropout(float p, uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL + 1), limit_(static_cast<uint32_t>(p * 65536)), keep_(1 / (1 - p)) {}
  void Draw(float* mask, size_t n) {
    for (size_t i = 0; i < n; i++) {
      if (i % 4 == 0) Next();
      mask[i] = ((state_ >> (16 * (i % 4))) & 0xFFFF) < limit_ ? 0 : keep_;
    }
  }

 private:
  void Next() {  // xorshift64
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
  }
  uint64_t state_;
  uint32_t limit_;
  float keep_;
};

// One worker's network: activations of one pass, and the gradient it adds up over a batch.
class Worker {
 public:
  Worker(const Options& options, const Layout& layout, const std::vector<float>& parameters, uint64_t seed)
      : o_(options), l_(layout), p_(parameters.data()), gradient_(layout.size), dropout_(options.dropout, seed), acts_(options.layers) {}

  // Adds the gradient of sum(weight * loss) / total over these rows; returns that sum.
  double Run(std::span<const Row* const> rows, float total) {
    std::fill(gradient_.begin(), gradient_.end(), 0.0F);
    double loss = 0;
    for (size_t first = 0; first < rows.size();) {
      size_t last = first, tokens = 0;
      do tokens += rows[last++]->ids.size() - 1;
      while (last < rows.size() && tokens < kTokensAPass);
      loss += Pass(rows.subspan(first, last - first), static_cast<int>(tokens), total);
      first = last;
    }
    return loss;
  }

  const std::vector<float>& gradient() const { return gradient_; }

 private:
  struct Acts {  // what the backward pass needs of one layer, [token][...]
    std::vector<float> x, h, qkv, probabilities, mixed, mid, h2, gate_up, product, scale, scale2, mask, mask2;
  };

  double Pass(std::span<const Row* const> rows, int n, float total) {
    const int d = o_.width, f = o_.hidden, heads = d / kHead;
    Place(rows);
    std::vector<float> x(static_cast<size_t>(n) * d);
    std::vector<float> mask(x.size());
    dropout_.Draw(mask.data(), mask.size());
    for (int t = 0; t < n; t++) {
      const float* e = p_ + l_.embedding + static_cast<size_t>(ids_[t]) * d;
      for (int j = 0; j < d; j++) x[t * d + j] = e[j] * mask[t * d + j];
    }
    std::vector<float> y(x.size());
    for (int i = 0; i < o_.layers; i++) {
      Acts& a = acts_[i];
      const Layout::Layer& w = l_.layers[i];
      const size_t nd = x.size(), nf = static_cast<size_t>(n) * f;
      a.x = x;
      for (auto* v : {&a.h, &a.mixed, &a.h2, &a.mask, &a.mask2}) v->resize(nd);
      a.qkv.resize(3 * nd), a.gate_up.resize(2 * nf), a.product.resize(nf), a.scale.resize(n), a.scale2.resize(n);
      Norm(x.data(), p_ + w.attn_norm, a.h.data(), a.scale.data(), n, d);
      Linear(a.h.data(), p_ + w.qkv, a.qkv.data(), n, d, 3 * d);
      for (int t = 0; t < n; t++) Rope(&a.qkv[static_cast<size_t>(t) * 3 * d], 2 * heads, Cos(t), Sin(t), 1);
      Attention(a);
      Linear(a.mixed.data(), p_ + w.out, y.data(), n, d, d);
      dropout_.Draw(a.mask.data(), nd);
      for (size_t j = 0; j < nd; j++) x[j] += y[j] * a.mask[j];
      a.mid = x;
      Norm(x.data(), p_ + w.ffn_norm, a.h2.data(), a.scale2.data(), n, d);
      Linear(a.h2.data(), p_ + w.gate_up, a.gate_up.data(), n, d, 2 * f);
      for (int t = 0; t < n; t++) {
        const float *g = &a.gate_up[static_cast<size_t>(t) * 2 * f], *u = g + f;
        float* out = &a.product[static_cast<size_t>(t) * f];
        for (int j = 0; j < f; j++) out[j] = g[j] / (1 + std::exp(-g[j])) * u[j];
      }
      Linear(a.product.data(), p_ + w.down, y.data(), n, f, d);
      dropout_.Draw(a.mask2.data(), nd);
      for (size_t j = 0; j < nd; j++) x[j] += y[j] * a.mask2[j];
    }

    std::vector<float> h(x.size()), scale(n), dh(x.size());
    Norm(x.data(), p_ + l_.norm, h.data(), scale.data(), n, d);
    const double loss = Loss(h, dh, total);

    std::vector<float> dx(x.size()), dy(x.size()), dproduct(static_cast<size_t>(n) * f), dgate_up(2 * dproduct.size()), dqkv(3 * x.size());
    float* g = gradient_.data();
    NormBack(dh.data(), x.data(), p_ + l_.norm, scale.data(), dx.data(), g + l_.norm, n, d);
    for (int i = o_.layers - 1; i >= 0; i--) {
      Acts& a = acts_[i];
      const Layout::Layer& w = l_.layers[i];
      for (size_t j = 0; j < dx.size(); j++) dy[j] = dx[j] * a.mask2[j];
      LinearBack(dy.data(), a.product.data(), p_ + w.down, dproduct.data(), g + w.down, n, f, d);
      for (int t = 0; t < n; t++) {
        const float *gate = &a.gate_up[static_cast<size_t>(t) * 2 * f], *up = gate + f;
        float *dgate = &dgate_up[static_cast<size_t>(t) * 2 * f], *dup = dgate + f;
        const float* dp = &dproduct[static_cast<size_t>(t) * f];
        for (int j = 0; j < f; j++) {
          const float sigmoid = 1 / (1 + std::exp(-gate[j])), silu = gate[j] * sigmoid;
          dup[j] = dp[j] * silu;
          dgate[j] = dp[j] * up[j] * (sigmoid + silu * (1 - sigmoid));
        }
      }
      LinearBack(dgate_up.data(), a.h2.data(), p_ + w.gate_up, dh.data(), g + w.gate_up, n, d, 2 * f);
      NormBack(dh.data(), a.mid.data(), p_ + w.ffn_norm, a.scale2.data(), dx.data(), g + w.ffn_norm, n, d);
      for (size_t j = 0; j < dx.size(); j++) dy[j] = dx[j] * a.mask[j];
      LinearBack(dy.data(), a.mixed.data(), p_ + w.out, dh.data(), g + w.out, n, d, d);
      AttentionBack(a, dh.data(), dqkv.data());
      for (int t = 0; t < n; t++) Rope(&dqkv[static_cast<size_t>(t) * 3 * d], 2 * heads, Cos(t), Sin(t), -1);
      LinearBack(dqkv.data(), a.h.data(), p_ + w.qkv, dh.data(), g + w.qkv, n, d, 3 * d);
      NormBack(dh.data(), a.x.data(), p_ + w.attn_norm, a.scale.data(), dx.data(), g + w.attn_norm, n, d);
    }
    for (int t = 0; t < n; t++) {
      float* e = g + l_.embedding + static_cast<size_t>(ids_[t]) * d;
      for (int j = 0; j < d; j++) e[j] += dx[t * d + j] * mask[t * d + j];
    }
    return loss;
  }

  // Concatenates the rows: each token but the last predicts the next.
  void Place(std::span<const Row* const> rows) {
    ids_.clear(), targets_.clear(), weights_.clear(), starts_.clear(), positions_.clear();
    for (const Row* row : rows) {
      starts_.push_back(static_cast<int>(ids_.size()));
      for (size_t t = 0; t + 1 < row->ids.size(); t++) {
        ids_.push_back(row->ids[t]);
        targets_.push_back(row->ids[t + 1]);
        weights_.push_back(row->weights[t + 1]);
        positions_.push_back(static_cast<int>(t));
      }
    }
    starts_.push_back(static_cast<int>(ids_.size()));
    const size_t longest = 1 + *std::max_element(positions_.begin(), positions_.end());
    for (size_t t = cosines_.size() / (kHead / 2); t < longest; t++) {
      for (int i = 0; i < kHead / 2; i++) {
        const double angle = static_cast<double>(t) * std::pow(kRopeBase, -2.0 * i / kHead);
        cosines_.push_back(static_cast<float>(std::cos(angle)));
        sines_.push_back(static_cast<float>(std::sin(angle)));
      }
    }
  }

  const float* Cos(int t) const { return &cosines_[static_cast<size_t>(positions_[t]) * (kHead / 2)]; }
  const float* Sin(int t) const { return &sines_[static_cast<size_t>(positions_[t]) * (kHead / 2)]; }

  // Causal attention within each row; keeps the probabilities, one triangle [t][u <= t] a row and head.
  void Attention(Acts& a) const {
    const int d = o_.width, heads = d / kHead, stride = 3 * d;
    const float factor = 1 / std::sqrt(static_cast<float>(kHead));
    a.probabilities.clear();
    for (size_t r = 0; r + 1 < starts_.size(); r++) {
      const int first = starts_[r], length = starts_[r + 1] - first;
      for (int head = 0; head < heads; head++) {
        const float* base = &a.qkv[static_cast<size_t>(first) * stride + head * kHead];
        for (int t = 0; t < length; t++) {
          const size_t at = a.probabilities.size();
          a.probabilities.resize(at + t + 1);
          float* p = &a.probabilities[at];
          const float* q = base + static_cast<size_t>(t) * stride;
          float most = -1e30F, sum = 0;
          for (int u = 0; u <= t; u++) {
            const float* k = base + static_cast<size_t>(u) * stride + d;
            float dot = 0;
            for (int j = 0; j < kHead; j++) dot += q[j] * k[j];
            p[u] = dot * factor;
            most = std::max(most, p[u]);
          }
          for (int u = 0; u <= t; u++) sum += p[u] = std::exp(p[u] - most);
          std::array<float, kHead> mixed{};
          for (int u = 0; u <= t; u++) {
            p[u] /= sum;
            const float* v = base + static_cast<size_t>(u) * stride + 2 * d;
            for (int j = 0; j < kHead; j++) mixed[j] += p[u] * v[j];
          }
          std::memcpy(&a.mixed[static_cast<size_t>(first + t) * d + head * kHead], mixed.data(), sizeof mixed);
        }
      }
    }
  }

  void AttentionBack(const Acts& a, const float* dmixed, float* dqkv) {
    const int d = o_.width, heads = d / kHead, stride = 3 * d;
    const float factor = 1 / std::sqrt(static_cast<float>(kHead));
    std::fill_n(dqkv, a.qkv.size(), 0.0F);
    const float* p = a.probabilities.data();
    for (size_t r = 0; r + 1 < starts_.size(); r++) {
      const int first = starts_[r], length = starts_[r + 1] - first;
      for (int head = 0; head < heads; head++) {
        const size_t at = static_cast<size_t>(first) * stride + head * kHead;
        const float* base = &a.qkv[at];
        float* dbase = dqkv + at;
        for (int t = 0; t < length; p += ++t) {
          const float* dm = dmixed + static_cast<size_t>(first + t) * d + head * kHead;
          dp_.resize(t + 1);
          float dot = 0;
          for (int u = 0; u <= t; u++) {
            const float* v = base + static_cast<size_t>(u) * stride + 2 * d;
            float* dv = dbase + static_cast<size_t>(u) * stride + 2 * d;
            float sum = 0;
            for (int j = 0; j < kHead; j++) {
              sum += dm[j] * v[j];
              dv[j] += p[u] * dm[j];
            }
            dp_[u] = sum;
            dot += sum * p[u];
          }
          const float* q = base + static_cast<size_t>(t) * stride;
          float* dq = dbase + static_cast<size_t>(t) * stride;
          for (int u = 0; u <= t; u++) {
            const float* k = base + static_cast<size_t>(u) * stride + d;
            float* dk = dbase + static_cast<size_t>(u) * stride + d;
            const float ds = p[u] * (dp_[u] - dot) * factor;
            for (int j = 0; j < kHead; j++) {
              dq[j] += ds * k[j];
              dk[j] += ds * q[j];
            }
          }
        }
      }
    }
  }

  // Cross entropy of the next token against the tied embedding, over the positions that count.
  double Loss(const std::vector<float>& h, std::vector<float>& dh, float total) {
    constexpr int kChunk = 64;
    const int d = o_.width, v = o_.vocabulary;
    std::vector<int> counted;
    for (size_t t = 0; t < ids_.size(); t++) {
      if (weights_[t] > 0) counted.push_back(static_cast<int>(t));
    }
    std::fill(dh.begin(), dh.end(), 0.0F);
    std::vector<float> x(static_cast<size_t>(kChunk) * d), dx(x.size()), logits(static_cast<size_t>(kChunk) * v);
    double loss = 0;
    for (size_t first = 0; first < counted.size(); first += kChunk) {
      const int m = static_cast<int>(std::min<size_t>(kChunk, counted.size() - first));
      for (int i = 0; i < m; i++) std::memcpy(&x[i * d], &h[static_cast<size_t>(counted[first + i]) * d], d * sizeof(float));
      Linear(x.data(), p_ + l_.embedding, logits.data(), m, d, v);
      for (int i = 0; i < m; i++) {
        float* row = &logits[static_cast<size_t>(i) * v];
        const int t = counted[first + i];
        const float most = *std::max_element(row, row + v), weight = weights_[t] / total;
        const float target = row[targets_[t]] - most;
        float sum = 0;
        for (int j = 0; j < v; j++) sum += row[j] = std::exp(row[j] - most);
        loss += weight * (std::log(sum) - target);
        const float factor = weight / sum;
        for (int j = 0; j < v; j++) row[j] *= factor;
        row[targets_[t]] -= weight;
      }
      LinearBack(logits.data(), x.data(), p_ + l_.embedding, dx.data(), gradient_.data() + l_.embedding, m, d, v);
      for (int i = 0; i < m; i++) std::memcpy(&dh[static_cast<size_t>(counted[first + i]) * d], &dx[i * d], d * sizeof(float));
    }
    return loss;
  }

  const Options& o_;
  const Layout& l_;
  const float* p_;
  std::vector<float> gradient_;
  Dropout dropout_;
  std::vector<Acts> acts_;
  std::vector<int> ids_, targets_, starts_, positions_;
  std::vector<float> weights_, cosines_, sines_, dp_;
};

void Load(const std::string& path, float* to, size_t count) {
  FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr || std::fread(to, sizeof(float), count, file) != count) {
    std::fprintf(stderr, "%s does not hold %zu parameters\n", path.c_str(), count);
    std::exit(1);
  }
  std::fclose(file);
}

// Looks at every token alike (queries and keys stay as they are, near zero) and adds up what it sees.
void AddUp(const Layout::Layer& layer, size_t d, std::vector<float>& parameters) {
  float *value = &parameters[layer.qkv + 2 * d * d], *out = &parameters[layer.out];
  std::fill_n(value, d * d, 0.0F);
  std::fill_n(out, d * d, 0.0F);
  for (size_t i = 0; i < d; i++) value[i * d + i] = 1, out[i * d + i] = kBag;
}

std::vector<float> Initial(const Options& options, const Layout& layout) {
  std::vector<float> parameters(layout.size, 1.0F);
  if (!options.from.empty()) {
    Load(options.from, parameters.data(), layout.size);
    return parameters;
  }
  std::mt19937 random(options.seed);
  const auto fill = [&](size_t at, size_t n, float deviation) {
    std::normal_distribution<float> normal(0, deviation);
    for (size_t i = 0; i < n; i++) parameters[at + i] = deviation == 0 ? 0 : normal(random);
  };
  const size_t d = options.width, f = options.hidden;
  const bool warm = !options.warm.empty();
  // What a layer adds to the residual at first: nothing in a bag, little to a bag.
  const float added = options.bag ? 0 : (warm ? 0.3F : 1.0F) / std::sqrt(2.0F * static_cast<float>(options.layers));
  const auto keep = [](size_t inputs) { return 1 / std::sqrt(static_cast<float>(inputs)); };
  fill(layout.embedding, options.vocabulary * d, 0.02F);
  for (const Layout::Layer& layer : layout.layers) {
    fill(layer.qkv, 3 * d * d, options.bag ? 0 : keep(d));
    fill(layer.out, d * d, added * keep(d));
    fill(layer.gate_up, 2 * f * d, keep(d));
    fill(layer.down, d * f, added * keep(f));
  }
  if (warm) {
    Load(options.warm, &parameters[layout.embedding], options.vocabulary * d);
    fill(layout.layers[0].qkv, 2 * d * d, 0.2F * keep(d));
  }
  if (warm || options.bag) AddUp(layout.layers[0], d, parameters);
  return parameters;
}

// AdamW over one worker's share of the parameters.
class Optimizer {
 public:
  Optimizer(const Options& options, const Layout& layout) : o_(options), first_(layout.size), second_(layout.size), decays_(layout.size) {
    for (size_t i = 0; i < layout.blocks.size(); i++) {
      std::fill_n(decays_.begin() + static_cast<std::ptrdiff_t>(layout.blocks[i].first), layout.blocks[i].second, layout.decays[i] ? o_.decay : 0.0F);
    }
  }
  void Step(std::vector<float>& parameters, const std::vector<float>& gradient, float clip, float rate, int step, size_t from, size_t to) {
    const float c1 = 1 - std::pow(kBeta1, static_cast<float>(step)), c2 = 1 - std::pow(kBeta2, static_cast<float>(step));
    for (size_t i = from; i < to; i++) {
      const float g = gradient[i] * clip;
      first_[i] = kBeta1 * first_[i] + (1 - kBeta1) * g;
      second_[i] = kBeta2 * second_[i] + (1 - kBeta2) * g * g;
      parameters[i] -= rate * (first_[i] / c1 / (std::sqrt(second_[i] / c2) + kAdamEpsilon) + decays_[i] * parameters[i]);
    }
  }

 private:
  const Options& o_;
  std::vector<float> first_, second_, decays_;
};

void Save(const std::string& path, const std::vector<float>& parameters) {
  FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr || std::fwrite(parameters.data(), sizeof(float), parameters.size(), file) != parameters.size() || std::fclose(file) != 0) {
    std::perror(path.c_str());
    std::exit(1);
  }
}

Options Parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    if (name == "--bag" || name == "--hold") {
      (name == "--bag" ? o.bag : o.hold) = true, i--;
      continue;
    }
    if (i + 1 == argc) std::fprintf(stderr, "%s needs a value\n", argv[i]), std::exit(2);
    const char* value = argv[i + 1];
    if (name == "--vocabulary") o.vocabulary = std::atoi(value);
    else if (name == "--width") o.width = std::atoi(value);
    else if (name == "--layers") o.layers = std::atoi(value);
    else if (name == "--hidden") o.hidden = std::atoi(value);
    else if (name == "--steps") o.steps = std::atoi(value);
    else if (name == "--workers") o.workers = std::atoi(value);
    else if (name == "--seed") o.seed = std::atoi(value);
    else if (name == "--rate") o.rate = std::strtof(value, nullptr);
    else if (name == "--dropout") o.dropout = std::strtof(value, nullptr);
    else if (name == "--warmup") o.warmup = std::atoi(value);
    else if (name == "--from") o.from = value;
    else if (name == "--warm") o.warm = value;
    else if (name == "--out") o.out = value;
    else std::fprintf(stderr, "unknown option %s\n", argv[i]), std::exit(2);
  }
  return o;
}

int Train(const Options& options) {
  const Layout layout(options);
  std::vector<float> parameters = Initial(options, layout), gradient(layout.size);
  std::printf("%zu parameters\n", layout.size);
  Optimizer optimizer(options, layout);
  std::vector<Worker> workers;
  for (int w = 0; w < options.workers; w++) workers.emplace_back(options, layout, parameters, options.seed * 1000 + w);
  const size_t trained = options.bag ? layout.blocks[0].second : layout.size;  // the embedding comes first
  const size_t share = (trained + options.workers - 1) / options.workers;

  std::optional<Batch> batch;
  std::vector<std::vector<const Row*>> shares(options.workers);
  std::vector<double> losses(options.workers), squares(options.workers);
  float total = 0, clip = 1, rate = 0;
  int step = 0;
  double mean = 0, tokens = 0;
  const auto began = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count(); };

  std::barrier sync(options.workers);
  const auto work = [&](int w) {
    const size_t from = std::min(trained, share * w), to = std::min(trained, from + share);
    while (true) {
      if (w == 0) {
        batch = step < options.steps ? ReadBatch() : std::nullopt;
        for (auto& each : shares) each.clear();
        total = 0;
        for (size_t i = 0; batch && i < batch->size(); i++) {
          Row& row = (*batch)[i];
          if (options.bag) {
            for (float& weight : row.weights) weight = weight < 1 ? 0 : weight;
          }
          shares[i % shares.size()].push_back(&row);
          for (size_t t = 1; t < row.weights.size(); t++) total += row.weights[t];
          tokens += static_cast<double>(row.ids.size());
        }
      }
      sync.arrive_and_wait();
      if (!batch) return;
      losses[w] = workers[w].Run(shares[w], total);
      sync.arrive_and_wait();
      double square = 0;
      for (size_t i = from; i < to; i++) {
        float sum = 0;
        for (const Worker& each : workers) sum += each.gradient()[i];
        gradient[i] = sum;
        square += sum * sum;
      }
      squares[w] = square;
      sync.arrive_and_wait();
      if (w == 0) {
        double norm = 0, loss = 0;
        for (const double each : squares) norm += each;
        for (const double each : losses) loss += each;
        clip = static_cast<float>(std::min(1.0, 1.0 / (std::sqrt(norm) + 1e-6)));
        const double done = static_cast<double>(step) / options.steps;
        rate = options.rate * std::min(1.0F, static_cast<float>(step + 1) / static_cast<float>(options.warmup)) *
               (options.hold ? 1 : static_cast<float>(std::max(0.01, 0.5 * (1 + std::cos(3.14159265 * done)))));
        mean = step == 0 ? loss : 0.98 * mean + 0.02 * loss;
        step++;
        if (step == 1 || step % 50 == 0) {
          std::printf("step %d loss %.4f norm %.2f rate %.2e %.0f tokens/s %.0f s\n", step, step == 1 ? loss : mean, std::sqrt(norm), rate, tokens / seconds(), seconds());
          std::fflush(stdout);
        }
        if (step % 100 == 0) Save(options.out, parameters);
      }
      sync.arrive_and_wait();
      optimizer.Step(parameters, gradient, clip, rate, step, from, to);
      sync.arrive_and_wait();
    }
  };
  std::vector<std::thread> threads;
  for (int w = 1; w < options.workers; w++) threads.emplace_back(work, w);
  work(0);
  for (std::thread& thread : threads) thread.join();
  Save(options.out, parameters);
  std::printf("%d steps, %.0f tokens, loss %.4f\n", step, tokens, mean);
  return 0;
}

}  // namespace

extern "C" void openblas_set_num_threads(int);

int main(int argc, char** argv) {
  openblas_set_num_threads(1);  // the workers are the parallelism
  return Train(Parse(argc, argv));
}
